#include "base/json/bounded_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/mapped_file.h"
#include "base/files/text.h"

namespace crumb {
namespace {

using nlohmann::json;

/// Builds the document while the parser reads, and stops it when the document costs too much.
class BoundedBuilder : public nlohmann::json_sax<json> {
 public:
  /// Whether the elements of a list or an object go to the sink, by its path and the number of keys in it.
  using Streams = std::function<bool(std::string_view path, std::size_t keys, bool is_list)>;

  /// Without a sink everything is kept.
  explicit BoundedBuilder(const JsonLimits& limits, Streams streams = {}, JsonMemberSink sink = {})
      : limits_(limits), streams_(std::move(streams)), sink_(std::move(sink)) {}

  bool null() override { return leaf(json(nullptr)); }
  bool boolean(bool value) override { return leaf(json(value)); }
  bool number_integer(number_integer_t value) override { return leaf(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return leaf(json(value)); }
  bool string(string_t& value) override {
    return spend(sizeof(string_t) + value.size() + 32) && leaf(json(std::move(value)));
  }
  bool binary(binary_t&) override { return refuse("binary values are not JSON"); }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    // A map node: the key, the value, and the memory of the tree and the allocator.
    if (!spend(sizeof(string_t) + name.size() + 96)) return false;
    auto [slot, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new) return refuse("the key " + quote_text(name) + " occurs twice in one object");
    member_ = &slot->second;
    if (sink_ && streaming_ == 0) keys_.back() = name;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    return refuse(json_error_text(position, error.what()));
  }

  const std::string& why() const { return why_; }
  json take() { return std::move(root_); }

 private:
  bool refuse(const std::string& why) {
    if (why_.empty()) why_ = why;
    return false;
  }

  bool spend(std::uint64_t bytes) {
    spent_ += bytes;
    if (spent_ <= limits_.max_bytes) return true;
    return refuse("it holds more values than " + byte_text(limits_.max_bytes) + " of memory can take");
  }

  json* place(json&& value) {
    // Arrays grow by doubling: an element may take its memory three times while they move.
    if (!spend(3 * sizeof(json))) return nullptr;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool leaf(json&& value) { return place(std::move(value)) != nullptr && hand_over(); }

  /// After a value: gives it to the sink where it is an element of a streamed list or object.
  bool hand_over() {
    if (streaming_ == 0 || open_.size() != streaming_) return true;
    json& container = *open_.back();
    if (container.is_array()) {
      auto& list = container.get_ref<json::array_t&>();
      sink_(path_, {}, list.back());
      list.pop_back();
    } else {
      auto& object = container.get_ref<json::object_t&>();
      sink_(path_, object.begin()->first, object.begin()->second);
      object.clear();
    }
    spent_ = spent_before_;
    return true;
  }

  bool open(json&& container) {
    if (open_.size() >= limits_.max_depth)
      return refuse("arrays and objects nest deeper than " + std::to_string(limits_.max_depth));
    if (!spend(64)) return false;
    json* placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    if (sink_ && streaming_ == 0) start_stream(*placed);
    return true;
  }

  /// Starts streaming the opened list or object where its path says so. It lies only in objects, whose keys
  /// are its path.
  void start_stream(const json& container) {
    keys_.resize(open_.size());
    path_.clear();
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (!open_[i]->is_object()) return;
      path_ += (i ? "." : "") + keys_[i];
    }
    if (open_.size() < 2 || !streams_(path_, open_.size() - 1, container.is_array())) return;
    streaming_ = open_.size();
    spent_before_ = spent_;
  }

  bool close() {
    if (open_.size() == streaming_) streaming_ = 0;
    open_.pop_back();
    if (sink_ && streaming_ == 0) keys_.resize(open_.size());
    return hand_over();
  }

  JsonLimits limits_;
  Streams streams_;
  JsonMemberSink sink_;
  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;
  std::vector<std::string> keys_;  ///< for each open object, the key whose value is being read
  std::string path_;               ///< the path of what is streamed
  std::size_t streaming_ = 0;      ///< open containers when the innermost one is streamed; 0: none is
  std::uint64_t spent_ = 0;
  std::uint64_t spent_before_ = 0;  ///< memory that was spent before the elements of what is streamed
  std::string why_;
};

}  // namespace

std::string json_error_text(std::size_t offset, const char* what) {
  std::string_view text = what;
  // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ...".
  if (const std::size_t end = text.find("] "); text.starts_with("[json.") && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  if (const std::size_t end = text.find(": ");
      text.starts_with("parse error") && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  std::string clean = quote_text(text);
  clean = clean.substr(1, clean.size() - 2);
  for (std::size_t at = 0; (at = clean.find("\\x27", at)) != std::string::npos;) clean.replace(at, 4, "'");
  return "not JSON at byte " + std::to_string(offset) + " (" + clean + ")";
}

Status check_json_tokens(std::span<const std::byte> bytes, std::uint64_t max_token_bytes,
                         unsigned max_depth) {
  const auto too_long = [&](std::size_t begin) {
    return Failure{"the string or number at byte " + std::to_string(begin) + " is longer than " +
                   byte_text(max_token_bytes)};
  };
  std::size_t token_begin = 0;
  unsigned depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = static_cast<char>(bytes[i]);
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') {
        in_string = false;
        token_begin = i + 1;
      }
    } else if (c == '"') {
      in_string = true;
      token_begin = i;
    } else if (c == '{' || c == '[') {
      token_begin = i + 1;
      if (++depth > max_depth)
        return Failure{"arrays and objects nest deeper than " + std::to_string(max_depth) + " at byte " +
                       std::to_string(i)};
    } else if (c == '}' || c == ']') {
      token_begin = i + 1;
      if (depth > 0) --depth;
    } else if (c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      token_begin = i + 1;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\xEF') {
      // The parser would take a zero byte for the end and skip a byte order mark.
      return Failure{"byte " + std::to_string(i) + " is not JSON: found a " +
                     (c == '\xEF' ? std::string("byte order mark or another character outside strings")
                                  : "control character " + std::to_string(static_cast<int>(c)))};
    }
    if (i - token_begin >= max_token_bytes && i >= token_begin) return too_long(token_begin);
  }
  return {};
}

namespace {

Result<json> parse(std::span<const std::byte> bytes, const JsonLimits& limits, BoundedBuilder builder) {
  if (const Status tokens = check_json_tokens(bytes, limits.max_token_bytes, limits.max_depth); !tokens.ok())
    return tokens.failure();
  const char* text = reinterpret_cast<const char*>(bytes.data());
  try {
    if (json::sax_parse(text, text + bytes.size(), &builder)) return builder.take();
  } catch (const json::exception& error) {
    return Failure{json_error_text(0, error.what())};
  }
  return Failure{builder.why()};
}

}  // namespace

Result<json> parse_bounded_json(std::span<const std::byte> bytes, const JsonLimits& limits) {
  return parse(bytes, limits, BoundedBuilder(limits));
}

Result<json> parse_bounded_json_lists(std::span<const std::byte> bytes, const JsonLimits& limits,
                                      JsonElementSink sink) {
  const auto is_of_root = [](std::string_view, std::size_t keys, bool is_list) {
    return keys == 1 && is_list;
  };
  const auto hand_on = [&](std::string_view key, std::string_view, const json& value) { sink(key, value); };
  return parse(bytes, limits, BoundedBuilder(limits, is_of_root, hand_on));
}

Result<json> parse_bounded_json_members(std::span<const std::byte> bytes, const JsonLimits& limits,
                                        std::span<const std::string_view> paths, JsonMemberSink sink) {
  const auto is_named = [paths](std::string_view path, std::size_t keys, bool) {
    const auto dots = static_cast<std::size_t>(std::ranges::count(path, '.'));
    return dots + 1 == keys && std::ranges::find(paths, path) != paths.end();
  };
  return parse(bytes, limits, BoundedBuilder(limits, is_named, std::move(sink)));
}

Result<json> read_bounded_json(const std::string& path, const JsonLimits& limits) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.failure();
  Result<json> parsed = parse_bounded_json(file.value().bytes(), limits);
  if (!parsed.ok()) return Failure{quote_text(path) + ": " + parsed.failure().message};
  return parsed;
}

}  // namespace crumb
