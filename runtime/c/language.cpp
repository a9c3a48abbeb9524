// The language models of crumb.h.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/text.h"
#include "formats/crumb_file/crumb_file.h"
#include "graph/packed/crumb_graph.h"
#include "runtime/c/status.h"
#include "runtime/language/generate.h"
#include "text/chat/messages.h"

namespace runtime = crumb::runtime;
namespace graph = crumb::graph;
using runtime::c::failed;
using runtime::c::guarded;

struct crumb_language {
  std::shared_ptr<const runtime::LanguageModel> model;
};

struct crumb_decoding {
  std::shared_ptr<const runtime::LanguageModel> model;
  crumb_options options;
  runtime::Decoding decoding;
  std::atomic<bool> cancelled{false};
  runtime::Answer answer;
  runtime::c::NotFiniteValues not_finite = {};
};

namespace {

/// Sets limits of memory and work for what a call runs.
class Within {
 public:
  explicit Within(crumb_decoding& decoding)
      : scope_(
            std::make_shared<runtime::Meter>(runtime::c::limits_of(decoding.options), &decoding.cancelled)),
        watched_(&decoding.not_finite.watch) {
    decoding.cancelled = false;
    decoding.not_finite.watch.clear();
  }

 private:
  runtime::MeterScope scope_;
  graph::NotFiniteScope watched_;
};

template <class T>
void copy_out(const T& made, typename T::value_type* to, size_t capacity, size_t* count) {
  *count = made.size();
  if (to && made.size() <= capacity) std::copy(made.begin(), made.end(), to);
}

std::optional<std::string> file_in(const crumb::CrumbFile& file, std::string_view path) {
  const crumb::PackedFile* entry = file.find_file(path);
  if (!entry) return std::nullopt;
  const std::string what = "file " + crumb::quote_text(entry->path);
  const auto loaded = file.load(entry->blob, what).take(crumb::quote_text(file.path().string()));
  const auto bytes = loaded.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// The ids. Throws Error where one has no logits.
std::vector<int32_t> checked_ids(const runtime::LanguageModel& model, const int32_t* ids, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= model.vocabulary())
      throw crumb::Error("there is no token " + std::to_string(ids[i]) + ": ids are below " +
                         std::to_string(model.vocabulary()));
  }
  return {ids, ids + count};
}

runtime::GenerateOptions options_of(const crumb_generation* requested) {
  runtime::GenerateOptions options;
  if (!requested) return options;
  if (requested->tokens > 0) options.tokens = requested->tokens;
  options.sampling = {.temperature = requested->temperature,
                      .top_k = requested->top_k,
                      .top_p = requested->top_p == 0 ? 1 : requested->top_p,
                      .min_p = requested->min_p,
                      .repeat_penalty = requested->repeat_penalty == 0 ? 1 : requested->repeat_penalty,
                      .seed = requested->seed};
  for (size_t i = 0; i < requested->stop_count; ++i) {
    if (!requested->stops || !requested->stops[i])
      throw crumb::Error("stop " + std::to_string(i) + " is a null pointer");
    options.stops.emplace_back(requested->stops[i]);
  }
  options.shift = requested->shift != 0;
  return options;
}

}  // namespace

extern "C" {

crumb_status crumb_language_open(const char* path, crumb_language** language) {
  if (!path || !language) return failed(CRUMB_ERROR_ARGUMENT, "crumb_language_open: a null pointer");
  std::shared_ptr<const crumb::CrumbFile> file;
  graph::Graph network;
  const std::string name = crumb::quote_text(path);
  const crumb_status read = guarded(CRUMB_ERROR_FILE, [&] {
    file = std::make_shared<const crumb::CrumbFile>(crumb::CrumbFile::open(path).take());
    network = graph::graph_on(file).take(name);
  });
  if (read != CRUMB_OK) return read;
  // The model's own message about missing operators comes first.
  return guarded(CRUMB_ERROR_FILE, [&] {
    const runtime::MeterScope scope(std::make_shared<runtime::Meter>(runtime::Limits()));
    const auto text = [&](std::string_view path_inside) { return file_in(*file, path_inside); };
    *language = new crumb_language{std::make_shared<runtime::LanguageModel>(
        runtime::LanguageModel::load(std::move(network), text, name))};
  });
}

void crumb_language_close(crumb_language* language) { delete language; }

size_t crumb_vocabulary(const crumb_language* language) {
  return language ? language->model->vocabulary() : 0;
}

size_t crumb_positions(const crumb_language* language) { return language ? language->model->positions() : 0; }

crumb_status crumb_encode(const crumb_language* language, const char* text, size_t bytes, int special,
                          int32_t* ids, size_t capacity, size_t* count) {
  if (!language || (!text && bytes > 0) || !count || (!ids && capacity > 0))
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_encode: a null pointer");
  return guarded(CRUMB_ERROR_INPUT, [&] {
    copy_out(language->model->tokenizer().encode({text, bytes}, special != 0), ids, capacity, count);
  });
}

crumb_status crumb_decode(const crumb_language* language, const int32_t* ids, size_t id_count, int special,
                          char* text, size_t capacity, size_t* count) {
  if (!language || (!ids && id_count > 0) || !count || (!text && capacity > 0))
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_decode: a null pointer");
  return guarded(CRUMB_ERROR_INPUT, [&] {
    copy_out(language->model->tokenizer().decode({ids, id_count}, special == 0), text, capacity, count);
  });
}

crumb_status crumb_render_chat(const crumb_language* language, const char* messages, size_t bytes, char* text,
                               size_t capacity, size_t* count) {
  if (!language || (!messages && bytes > 0) || !count || (!text && capacity > 0))
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_render_chat: a null pointer");
  return guarded(CRUMB_ERROR_INPUT, [&] {
    const auto said = crumb::text::parse_conversation({messages, bytes}, "the messages");
    const std::string rendered = language->model->chat_template().render(
        said.messages, {.add_generation_prompt = true, .extra = said.extra});
    copy_out(rendered, text, capacity, count);
  });
}

crumb_status crumb_decoding_open(const crumb_language* language, const crumb_options* options,
                                 uint64_t context, crumb_decoding** decoding) {
  if (!language || !decoding) return failed(CRUMB_ERROR_ARGUMENT, "crumb_decoding_open: a null pointer");
  const crumb_options wanted = options ? *options : crumb_options{};
  if (const crumb_status status = runtime::c::check_options(wanted, "crumb_decoding_open");
      status != CRUMB_OK)
    return status;
  return guarded(CRUMB_ERROR_ARGUMENT, [&] {
    const bool fast = wanted.promise == CRUMB_FAST;
    const runtime::DecodingOptions how{.threads = wanted.threads,
                                       .promise = fast ? runtime::Promise::kFast : runtime::Promise::kExact,
                                       .context = context};
    *decoding = new crumb_decoding{.model = language->model,
                                   .options = wanted,
                                   .decoding = runtime::Decoding(*language->model, how),
                                   .answer = {}};
  });
}

void crumb_decoding_close(crumb_decoding* decoding) { delete decoding; }

crumb_status crumb_generate(crumb_decoding* decoding, const int32_t* prompt, size_t count,
                            const crumb_generation* generation, crumb_show show, void* user,
                            crumb_answer* answer) {
  if (!decoding || (!prompt && count > 0) || !answer)
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_generate: a null pointer");
  std::vector<int32_t> ids;
  runtime::GenerateOptions options;
  const crumb_status checked = guarded(CRUMB_ERROR_INPUT, [&] {
    ids = checked_ids(*decoding->model, prompt, count);
    options = options_of(generation);
    (void)runtime::Sampler(options.sampling);
    if (ids.empty()) throw crumb::Error("the prompt is empty: there is nothing to answer");
  });
  if (checked != CRUMB_OK) return checked;
  return guarded(CRUMB_ERROR_RUN, [&] {
    const Within limits(*decoding);
    const auto shown = [&](std::string_view text) {
      if (show && show(text.data(), text.size(), user) != 0) decoding->cancelled = true;
    };
    runtime::Answer made = runtime::generate(*decoding->model, decoding->decoding, ids, options, shown);
    decoding->answer = std::move(made);
    const runtime::Answer& kept = decoding->answer;
    *answer = {kept.text.data(),
               kept.text.size(),
               kept.ids.data(),
               kept.ids.size(),
               static_cast<int>(kept.stopped_by),
               kept.prompt_tokens,
               kept.prompt_seconds,
               kept.answer_seconds};
  });
}

uint64_t crumb_decoding_not_finite(crumb_decoding* decoding, const char** node) {
  if (node) *node = "";
  if (!decoding) return 0;
  std::uint64_t count = 0;
  (void)guarded(CRUMB_ERROR_RUN,
                [&] { count = decoding->not_finite.tell(decoding->model->model().graph(), node); });
  return count;
}

void crumb_decoding_cancel(crumb_decoding* decoding) {
  if (decoding) decoding->cancelled = true;
}

crumb_status crumb_feed(crumb_decoding* decoding, const int32_t* ids, size_t count, size_t kept,
                        const float** logits) {
  if (!decoding || !ids || !logits) return failed(CRUMB_ERROR_ARGUMENT, "crumb_feed: a null pointer");
  if (kept < 1 || kept > count)
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_feed: kept is not from 1 to count");
  std::vector<int32_t> checked;
  const crumb_status status =
      guarded(CRUMB_ERROR_INPUT, [&] { checked = checked_ids(*decoding->model, ids, count); });
  if (status != CRUMB_OK) return status;
  return guarded(CRUMB_ERROR_RUN, [&] {
    const Within limits(*decoding);
    *logits = decoding->decoding.feed(checked, kept).data();
  });
}

uint64_t crumb_decoding_length(const crumb_decoding* decoding) {
  return decoding ? decoding->decoding.ids().size() : 0;
}

crumb_status crumb_decoding_truncate(crumb_decoding* decoding, uint64_t length) {
  if (!decoding) return failed(CRUMB_ERROR_ARGUMENT, "crumb_decoding_truncate: a null pointer");
  if (length > decoding->decoding.ids().size())
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_decoding_truncate: there are fewer tokens");
  return guarded(CRUMB_ERROR_RUN, [&] { decoding->decoding.truncate(length); });
}

}  // extern "C"
