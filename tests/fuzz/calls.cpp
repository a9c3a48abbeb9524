#include "tests/fuzz/calls.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/crumb.h"
#include "tests/fuzz/calls_models.h"
#include "tests/fuzz/calls_script.h"

namespace crumb::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSlots = 3, kMostCalls = 24;

void promise(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("a promise of crumb.h was broken: ") + what);
}

/// Everything that one script opens.
class Player {
 public:
  Player(Script script, const std::vector<std::string>& paths, const std::vector<std::string>& contents)
      : script_(script), paths_(paths), contents_(contents) {}
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    for (std::size_t i = 0; i < kSlots; ++i) {  // not in the order in which they were opened
      crumb_close(models_[i]);
      crumb_language_close(languages_[i]);
      crumb_session_close(sessions_[i]);
      crumb_decoding_close(decodings_[i]);
    }
  }

  /// A beginning, so that short scripts reach far; then whatever comes.
  std::size_t run() {
    if (script_.below(2) == 0) {
      open_network();
      open_session();
      if (script_.below(2) == 0) cache_open();
    } else {
      open_language();
      open_decoding();
    }
    using Call = void (Player::*)();
    constexpr Call kCalls[] = {
        &Player::open_network,  &Player::open_session,   &Player::run_session,   &Player::run_session,
        &Player::run_session,   &Player::result,         &Player::describe,      &Player::cache_open,
        &Player::cache_tie,     &Player::cache_truncate, &Player::cache_reset,   &Player::cache_save,
        &Player::cache_restore, &Player::cache_asks,     &Player::open_memory,   &Player::close_model,
        &Player::close_session, &Player::open_language,  &Player::encode,        &Player::decode,
        &Player::render,        &Player::open_decoding,  &Player::generate,      &Player::generate,
        &Player::generate,      &Player::feed,           &Player::feed,          &Player::truncate,
        &Player::cancel,        &Player::close_language, &Player::close_decoding};
    while (!script_.is_over() && calls_ < kMostCalls) (this->*kCalls[script_.below(std::size(kCalls))])();
    return calls_;
  }

 private:
  crumb_status checked(crumb_status status) {
    ++calls_;
    promise(status >= CRUMB_OK && status <= CRUMB_ERROR_MEMORY, "a status is one of the list");
    promise(status == CRUMB_OK || crumb_error()[0] != '\0', "a call that fails says why");
    return status;
  }
  template <class T>
  T& slot(std::array<T, kSlots>& all) {
    return all[script_.below(8) < 6 ? 0 : script_.below(kSlots)];
  }
  template <class T, class Close>
  void put(std::array<T, kSlots>& all, T made, const Close& close) {
    T& to = slot(all);
    close(to);
    to = made;
  }
  const void* memory(std::size_t bytes) const { return bytes <= sizeof numbers_ ? numbers_.data() : nullptr; }
  static void read_all(const void* data, std::size_t bytes) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < bytes; ++i) sum += static_cast<const unsigned char*>(data)[i];
    volatile unsigned kept = sum;
    (void)kept;
  }

  // --- Networks
  void open_network() {
    crumb_model* made = nullptr;
    const std::size_t kind = script_.below(kModels);
    const char* const path = script_.rarely() ? "/nowhere" : paths_[kind].c_str();
    if (checked(crumb_open(script_.rarely() ? nullptr : path, &made)) == CRUMB_OK)
      put(models_, made, crumb_close);
    promise(made == nullptr || made == models_[0] || made == models_[1] || made == models_[2],
            "a model comes where the call succeeds");
  }
  void open_memory() {
    std::string bytes = contents_[script_.below(kModels)];
    if (script_.below(2) == 0) bytes.resize(script_.size() % (bytes.size() + 1));
    if (script_.below(2) == 0 && !bytes.empty())
      bytes[script_.size() % bytes.size()] = static_cast<char>(script_.byte());
    crumb_model* made = nullptr;
    if (checked(crumb_open_memory(bytes.data(), bytes.size(), &made)) == CRUMB_OK)
      put(models_, made, crumb_close);
  }
  void close_model() { put<crumb_model*>(models_, nullptr, crumb_close); }
  void close_session() { put<crumb_session*>(sessions_, nullptr, crumb_session_close); }
  void describe() {
    const crumb_model* model = slot(models_);
    crumb_value value{};
    const std::size_t index = script_.size();
    const bool of_outputs = script_.below(2) == 0;
    const std::size_t count = of_outputs ? crumb_output_count(model) : crumb_input_count(model);
    const crumb_status status =
        checked(of_outputs ? crumb_output(model, index, &value) : crumb_input(model, index, &value));
    promise((status == CRUMB_OK) == (model && index < count), "values are described by their index");
    if (status != CRUMB_OK) return promise(value.name == nullptr, "a call that fails writes nothing");
    for (std::int64_t i = 0; i < value.rank; ++i)
      promise(value.shape[i] >= -1 && std::strlen(value.symbols[i]) < 100, "a value has a shape");
  }
  void open_session() {
    crumb_session* made = nullptr;
    const crumb_options options = script_.options();
    const crumb_model* model = slot(models_);
    if (checked(crumb_session_open(model, &options, &made)) == CRUMB_OK)
      put(sessions_, made, crumb_session_close);
  }

  /// Mostly what the network takes.
  void run_session() {
    crumb_session* session = slot(sessions_);
    const std::int64_t batch = 1 + static_cast<std::int64_t>(script_.below(2)),
                       count = static_cast<std::int64_t>(script_.below(9)),
                       past = static_cast<std::int64_t>(script_.below(4));
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int64_t>(script_.rarely() ? script_.size() : i * 5 % (kWords - 1));
    std::array<std::array<std::int64_t, 4>, 3> shapes = {
        {{batch, count, 0, 0}, {batch, 1, past, kWidth}, {batch, 1, past, kWidth}}};
    std::array<crumb_tensor, 3> inputs{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_ids = i == 0;
      const auto elements = static_cast<std::size_t>(is_ids ? batch * count : batch * past * kWidth);
      inputs[i] = {is_ids ? CRUMB_INT64 : CRUMB_FLOAT32, is_ids ? std::size_t{2} : std::size_t{4},
                   shapes[i].data(), is_ids ? static_cast<const void*>(ids_.data()) : numbers_.data(),
                   elements * (is_ids ? sizeof(std::int64_t) : sizeof(float))};
    }
    if (script_.below(4) == 3) spoil(inputs[script_.below(inputs.size())], shapes);
    const bool has_cache = session && crumb_cache_holds_input(session, 1) != 0;
    const std::size_t given = script_.rarely() ? script_.below(5) % 4 : (has_cache ? 1 : 3);
    const std::uint64_t before = crumb_cache_length(session);
    const crumb_status status = checked(crumb_run(session, inputs.data(), given));
    if (status != CRUMB_OK)
      promise(crumb_cache_length(session) == before, "a run that fails leaves its places");
  }
  void spoil(crumb_tensor& input, std::array<std::array<std::int64_t, 4>, 3>& shapes) {
    switch (script_.below(6)) {
      case 0: input.type = static_cast<crumb_type>(script_.below(30)) - 1; break;
      case 1: input.rank = script_.size() % 5 == 4 ? ~std::size_t{0} : script_.below(5); break;
      case 2: shapes[script_.below(3)][script_.below(4)] = static_cast<std::int64_t>(script_.size()); break;
      case 3: input.bytes = script_.size() % (sizeof numbers_ / 2); break;
      case 4: input.data = nullptr; break;
      default: input.shape = nullptr; break;
    }
  }
  void result() {
    const crumb_session* session = slot(sessions_);
    crumb_tensor output{};
    if (checked(crumb_result(session, script_.rarely() ? script_.size() : script_.below(3), &output)) !=
        CRUMB_OK)
      return promise(output.data == nullptr && output.rank == 0, "a call that fails writes nothing");
    std::size_t elements = 1;
    for (std::size_t i = 0; i < output.rank; ++i) elements *= static_cast<std::size_t>(output.shape[i]);
    promise(output.bytes == elements * sizeof(float), "an output has the bytes of its shape");
    read_all(output.data, output.bytes);
  }
  void cache_open() {
    std::size_t ties = 99;
    crumb_session* session = slot(sessions_);
    const std::uint64_t most = script_.below(4) == 3 ? script_.size() : 0;
    const crumb_status status = checked(crumb_cache_open(session, most, &ties));
    promise(ties == (status == CRUMB_OK ? 2 : 99), "a cache is of the network's ties");
  }
  void cache_tie() {
    constexpr const char* kNames[] = {"past_key_values.0.key",
                                      "past_key_values.0.value",
                                      "present.0.key",
                                      "present.0.value",
                                      "logits",
                                      "input_ids",
                                      ""};
    crumb_session* session = slot(sessions_);
    const char *past = kNames[script_.below(7)],
               *present = script_.rarely() ? nullptr : kNames[script_.below(7)];
    checked(crumb_cache_tie(session, past, present,
                            script_.rarely() ? static_cast<std::int64_t>(script_.size()) : 2));
  }
  void cache_truncate() {
    crumb_session* session = slot(sessions_);
    const std::uint64_t wanted = script_.size(), before = crumb_cache_length(session);
    const crumb_status status = checked(crumb_cache_truncate(session, wanted));
    promise(crumb_cache_length(session) == (status == CRUMB_OK ? wanted : before),
            "a cache is cut, or stays");
  }
  void cache_reset() { checked(crumb_cache_reset(slot(sessions_))); }
  void cache_save() {
    const void* bytes = nullptr;
    std::size_t size = 0;
    if (checked(crumb_cache_save(slot(sessions_), &bytes, &size)) != CRUMB_OK)
      return promise(bytes == nullptr && size == 0, "a call that fails writes nothing");
    saved_.assign(static_cast<const char*>(bytes), size);
  }
  void cache_restore() {
    std::string bytes = saved_;
    if (script_.below(4) == 3) bytes.resize(script_.size() % (bytes.size() + 1));
    if (script_.below(4) == 3 && !bytes.empty())
      bytes[script_.size() % bytes.size()] = static_cast<char>(script_.byte());
    crumb_session* session = slot(sessions_);
    const std::uint64_t before = crumb_cache_length(session);
    if (checked(crumb_cache_restore(session, bytes.data(), bytes.size())) != CRUMB_OK)
      promise(crumb_cache_length(session) == before, "what is refused changes nothing");
  }
  void cache_asks() {
    const crumb_session* session = slot(sessions_);
    const std::size_t index = script_.size();
    (void)crumb_cache_holds_input(session, index);
    (void)crumb_cache_holds_output(session, index);
    (void)crumb_peak_memory(session);
    (void)crumb_work(session);
    const char* node = nullptr;
    const std::uint64_t count = crumb_not_finite(slot(sessions_), &node);
    promise((count > 0) == (node[0] != '\0'), "values that are not finite came to a quantizer with a name");
    (void)crumb_cache_memory(session);  // 0 with places whose other axes are empty
    calls_ += 7;
  }

  // --- Language models
  void open_language() {
    crumb_language* made = nullptr;
    const std::size_t kind = script_.below(kModels);
    if (checked(crumb_language_open(script_.rarely() ? "" : paths_[kind].c_str(), &made)) == CRUMB_OK)
      put(languages_, made, crumb_language_close);
  }
  void close_language() { put<crumb_language*>(languages_, nullptr, crumb_language_close); }
  void close_decoding() { put<crumb_decoding*>(decodings_, nullptr, crumb_decoding_close); }
  std::string text() {
    constexpr const char* kTexts[] = {"",    "a",        "a b c",
                                      "<s>", "zz\xff j", "a a a a a a a a a a a a a a a a a a a a a a a a a"};
    return kTexts[script_.below(6)];
  }
  void encode() {
    const std::string from = text();
    std::array<std::int32_t, 64> ids{};
    ids.fill(-7);
    const std::size_t room = script_.below(ids.size());
    std::size_t count = 99;
    const crumb_language* language = slot(languages_);
    const crumb_status status =
        checked(crumb_encode(language, from.data(), from.size(), static_cast<int>(script_.below(2)),
                             script_.rarely() ? nullptr : ids.data(), room, &count));
    promise(status == CRUMB_OK || count == 99, "a call that fails writes nothing");
    promise(std::all_of(ids.begin() + static_cast<std::ptrdiff_t>(room), ids.end(),
                        [](int id) { return id == -7; }),
            "nothing is written behind the room");
  }
  void decode() {
    fill_tokens();
    std::array<char, 64> out{};
    std::size_t count = 99;
    const crumb_language* language = slot(languages_);
    const crumb_status status = checked(crumb_decode(language, tokens_.data(), script_.below(tokens_.size()),
                                                     static_cast<int>(script_.below(2)), out.data(),
                                                     script_.below(out.size()), &count));
    promise(status == CRUMB_OK || count == 99, "a call that fails writes nothing");
  }
  void render() {
    constexpr const char* kMessages[] = {"[]", R"([{"role": "user", "content": "a"}])", "{", "null", ""};
    const std::string messages = kMessages[script_.below(5)];
    std::array<char, 64> out{};
    std::size_t count = 0;
    checked(crumb_render_chat(slot(languages_), messages.data(), messages.size(), out.data(),
                              script_.below(64), &count));
  }
  void open_decoding() {
    crumb_decoding* made = nullptr;
    const crumb_options options = script_.options();
    const crumb_language* language = slot(languages_);
    const std::uint64_t context = script_.below(3) == 0 ? 0 : script_.size();
    if (checked(crumb_decoding_open(language, &options, context, &made)) == CRUMB_OK)
      put(decodings_, made, crumb_decoding_close);
  }
  void fill_tokens() {
    const std::size_t seed = script_.byte();
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      tokens_[i] = static_cast<std::int32_t>((i * (seed % 5) + seed) % (kWords - 1));
    if (seed % 2 == 0) tokens_[0] = 1;
    if (script_.rarely()) tokens_[script_.below(tokens_.size())] = static_cast<std::int32_t>(script_.size());
    if (script_.rarely()) tokens_[script_.below(tokens_.size())] = kWords - 1;  // of which logits are NaN
  }
  struct Shown {
    crumb_decoding* decoding;
    std::size_t until_cancel, until_stop;
  };
  static int show(const char* text, std::size_t bytes, void* user) {
    auto& shown = *static_cast<Shown*>(user);
    read_all(text, bytes);
    if (shown.until_cancel-- == 0) crumb_decoding_cancel(shown.decoding);
    return shown.until_stop-- == 0 ? 1 : 0;
  }
  void generate() {
    fill_tokens();
    crumb_decoding* decoding = slot(decodings_);
    const char* const stops[] = {"a", "b c", script_.rarely() ? "" : "j", script_.rarely() ? nullptr : "h"};
    crumb_generation how{.tokens = script_.below(2) == 0 ? script_.below(9) : script_.size(),
                         .temperature = script_.number(),
                         .top_k = script_.below(2) == 0 ? 0 : script_.size(),
                         .top_p = script_.rarely() ? script_.number() : 0,
                         .min_p = script_.rarely() ? script_.number() : 0,
                         .repeat_penalty = script_.rarely() ? script_.number() : 0,
                         .seed = script_.byte(),
                         .stops = script_.rarely() ? nullptr : stops,
                         .stop_count = script_.rarely() ? script_.below(5) : 0,
                         .shift = static_cast<int>(script_.below(2))};
    Shown shown{.decoding = decoding,
                .until_cancel = script_.below(3) == 0 ? script_.below(6) : 1000,
                .until_stop = script_.below(3) == 0 ? script_.below(6) : 1000};
    crumb_answer answer{};
    const std::size_t count = script_.below(3) == 0 ? script_.below(tokens_.size()) : script_.below(10);
    const std::uint64_t before = crumb_decoding_length(decoding);
    const crumb_status status =
        checked(crumb_generate(decoding, tokens_.data(), count, script_.rarely() ? nullptr : &how,
                               script_.below(2) == 0 ? nullptr : show, &shown, &answer));
    if (status != CRUMB_OK) {
      promise(answer.text == nullptr && answer.count == 0, "a call that fails writes nothing");
      promise(status != CRUMB_ERROR_INPUT || crumb_decoding_length(decoding) == before,
              "what is refused changes nothing");
      return;
    }
    promise(count > 0, "an empty prompt has no answer");
    read_all(answer.text, answer.bytes);
    for (std::size_t i = 0; i < answer.count; ++i)
      promise(answer.ids[i] >= 0 && answer.ids[i] < kWords, "an answer's ids are below the vocabulary");
    promise(answer.prompt_tokens <= count && answer.stopped_by >= 0 && answer.stopped_by <= 3,
            "an answer says how it came");
    promise(crumb_decoding_length(decoding) <= kPositions,
            "a sequence is no longer than the model's positions");
  }
  void feed() {
    fill_tokens();
    crumb_decoding* decoding = slot(decodings_);
    const std::size_t count = script_.rarely() ? script_.below(tokens_.size()) : script_.below(6),
                      kept = script_.rarely() ? script_.size()
                                              : std::min<std::size_t>(count, 1 + script_.below(3));
    const float* logits = nullptr;
    const std::uint64_t before = crumb_decoding_length(decoding);
    const crumb_status status = checked(crumb_feed(decoding, tokens_.data(), count, kept, &logits));
    if (status != CRUMB_OK) {
      promise(logits == nullptr, "a call that fails writes nothing");
      return promise(crumb_decoding_length(decoding) == before, "a call that fails leaves the sequence");
    }
    promise(crumb_decoding_length(decoding) == before + count, "tokens are behind those that were there");
    read_all(logits, kept * kWords * sizeof(float));
  }
  void truncate() {
    crumb_decoding* decoding = slot(decodings_);
    const std::uint64_t wanted = script_.size(), before = crumb_decoding_length(decoding);
    const crumb_status status = checked(crumb_decoding_truncate(decoding, wanted));
    promise((status == CRUMB_OK) == (decoding && wanted <= before),
            "a sequence is cut where it is that long");
    promise(crumb_decoding_length(decoding) == (status == CRUMB_OK ? wanted : before),
            "a sequence is cut, or stays");
  }
  void cancel() {
    crumb_cancel(slot(sessions_));
    crumb_decoding_cancel(slot(decodings_));
    (void)crumb_vocabulary(slot(languages_));
    (void)crumb_positions(slot(languages_));
    (void)crumb_version();
    const char* node = nullptr;
    const std::uint64_t count = crumb_decoding_not_finite(slot(decodings_), &node);
    promise((count > 0) == (node[0] != '\0'), "values that are not finite came to a quantizer with a name");
    calls_ += 6;
  }

  Script script_;
  const std::vector<std::string>&paths_, &contents_;
  std::size_t calls_ = 0;
  std::array<crumb_model*, kSlots> models_{};
  std::array<crumb_session*, kSlots> sessions_{};
  std::array<crumb_language*, kSlots> languages_{};
  std::array<crumb_decoding*, kSlots> decodings_{};
  std::array<std::int64_t, 32> ids_{};
  std::array<std::int32_t, 40> tokens_{};
  std::array<float, 256> numbers_{};
  std::string saved_;
};

}  // namespace

struct Calls::Files {
  fs::path folder;
  std::vector<std::string> paths, contents;
};

Calls::Calls() {
  std::string name = (fs::temp_directory_path() / "crumb_calls_XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::logic_error("no folder can be made");
  auto files = std::make_unique<Files>();
  files->folder = name;
  for (std::size_t kind = 0; kind < kModels; ++kind) {
    const fs::path path = files->folder / (std::to_string(kind) + ".crumb");
    write_model(kind, path);
    files->paths.push_back(path.string());
    std::ifstream file(path, std::ios::binary);
    files->contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    crumb_language* language = nullptr;
    const crumb_status opened = crumb_language_open(files->paths.back().c_str(), &language);
    crumb_language_close(language);
    if (opened != CRUMB_OK) throw std::logic_error(crumb_error());
  }
  files_ = std::move(files);
}

Calls::~Calls() {
  std::error_code error;
  fs::remove_all(files_->folder, error);
}

const std::string& Calls::path(std::size_t kind) const { return files_->paths.at(kind); }

std::size_t Calls::play(std::span<const std::byte> script) const {
  return Player(Script(script), files_->paths, files_->contents).run();
}

}  // namespace crumb::testing
