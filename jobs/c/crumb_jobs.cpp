// Implements crumb_jobs.h on jobs/quantize.h: exceptions become statuses here, and nowhere else.
#define CRUMB_JOBS_API __attribute__((visibility("default")))
#include "jobs/c/crumb_jobs.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "jobs/quantize_json.h"
#include "jobs/request_options.h"

namespace jobs = crumb::jobs;

namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

crumb_jobs_status failed(crumb_jobs_status status, const char* why) noexcept {
  try {
    last_error() = why;
  } catch (...) {
    last_error().clear();
  }
  return status;
}

template <class Work>
crumb_jobs_status guarded(const Work& work) noexcept {
  try {
    work();
    return CRUMB_JOBS_OK;
  } catch (const crumb::Error& error) {
    return failed(error.kind() == crumb::ErrorKind::kUsage ? CRUMB_JOBS_USAGE : CRUMB_JOBS_ERROR,
                  error.what());
  } catch (const crumb::Interrupted&) {
    return failed(CRUMB_JOBS_CANCELLED, "the job was ended by its watcher");
  } catch (const std::bad_alloc&) {
    return failed(CRUMB_JOBS_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(CRUMB_JOBS_ERROR, error.what());
  }
}

class Watching final : public jobs::Observer {
 public:
  explicit Watching(const crumb_watcher* watcher) : watcher_(watcher) {}
  void note(const std::string& text) override { say(text, 0); }
  void warning(const std::string& text) override { say(text, 1); }
  void progress(const jobs::Progress& now) override {
    if (!watcher_ || !watcher_->progress) return;
    if (watcher_->progress(watcher_->context, now.what.c_str(), now.items.c_str(), now.done, now.all) != 0)
      throw crumb::Interrupted();
  }
  std::string spelled(std::string_view field) const override {  // the option
    return std::string(field == "form" ? "to" : field);
  }

 private:
  void say(const std::string& text, int is_warning) const {
    if (watcher_ && watcher_->note) watcher_->note(watcher_->context, text.c_str(), is_warning);
  }

  const crumb_watcher* watcher_;
};

}  // namespace

extern "C" {

crumb_jobs_status crumb_quantize(const char* input, const char* output, const char* recipe,
                                 const char* options, const crumb_watcher* watcher, char** report) {
  if (!input || !output || !recipe) return failed(CRUMB_JOBS_USAGE, "crumb_quantize: a null pointer");
  return guarded([&] {
    jobs::QuantizeRequest request{.input = input,
                                  .output = output,
                                  .recipe = crumb::parse_recipe(recipe, "the recipe"),
                                  .data = {},
                                  .batch_axes = {},
                                  .device = {},
                                  .shapes = {},
                                  .arguments = {},
                                  .read_files = {}};
    if (options) jobs::read_options(options, request);
    Watching watching(watcher);
    const jobs::QuantizeReport made = jobs::quantize(request, watching);
    if (!report) return;
    const std::string text =
        jobs::json_of(made).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    char* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, text.c_str(), text.size() + 1);
    *report = copy;
  });
}

const char* crumb_jobs_error(void) { return last_error().c_str(); }

void crumb_jobs_free(char* report) { std::free(report); }

const char* crumb_jobs_version(void) { return CRUMB_VERSION; }

}  // extern "C"
