#include "tasks/language/lesson.h"

#include "tasks/language/lines_lesson.h"
#include "tasks/language/text_lesson.h"

namespace crumb::tasks {

std::unique_ptr<Lesson> lesson_of(const LanguageRequest& request, const LanguageHooks& hooks) {
  if (!request.lines.empty()) return std::make_unique<LinesLesson>(request);
  return std::make_unique<TextLesson>(request, hooks);
}

}  // namespace crumb::tasks
