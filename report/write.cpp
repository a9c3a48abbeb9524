#include "report/write.h"

#include "base/text/ascii_case.h"

namespace crumb::report {

std::optional<Form> form_of(const std::filesystem::path& path) {
  const std::string ending = lower_case(path.extension().string());
  if (ending == ".html" || ending == ".htm") return Form::kHtml;
  if (ending == ".json") return Form::kJson;
  if (ending == ".md") return Form::kMarkdown;
  return std::nullopt;
}

std::string text_of(const Report& report, Form form) {
  switch (form) {
    case Form::kHtml: return html_of(report);
    case Form::kJson: return json_of(report);
    case Form::kMarkdown: return markdown_of(report);
  }
  return "";
}

}  // namespace crumb::report
