// Chat templates: the Jinja text that comes with a model, rendered as `transformers` (5.23) does with jinja2
// (3.1): blocks trimmed, in the immutable sandbox, an undefined value lenient. What is read:
//
//   tags         if elif else, for (with if and else; loop.*, break, continue), set (also of blocks and of
//                attributes of namespaces), macro, filter, generation, raw; comments; - and + in tags
//   expressions  all operators, conditions, comparisons in chains, in, is, slices, literals, calls with names
//   filters      abs attr capitalize count d default dictsort first float format indent int items join last
//                length list lower map max min reject rejectattr replace reverse round safe select selectattr
//                sort string sum title tojson trim
//                unique upper
//   tests        Jinja's but for escaped, filter and test
//   functions    range dict namespace raise_exception strftime_now
//   methods      of strings (capitalize count endswith find format index is* join lower lstrip removeprefix
//                removesuffix replace rfind rindex rsplit rstrip split splitlines startswith strip title
//                upper), dicts (copy get items
//                keys values), lists (copy count index)
//
// Anything else of Jinja (include, block, call, import, recursive loops, other filters and methods, integers
// of more than 64 bits) is an Error that names it and its line, when the template is read or when it is
// reached. Templates come from untrusted files: the steps that one may take, and so the text that it may
// make, are bounded.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace crumb::text {

/// Ill-formed UTF-8 counts as U+FFFD.
struct ChatMessage {
  std::string role, content;
};

class ChatTemplate {
 public:
  /// Variables by name, such as bos_token.
  using Tokens = std::map<std::string, std::string>;

  static constexpr std::uint64_t kSteps = 20'000'000;
  static constexpr std::uint64_t kStepsPerByte = 64;

  struct Options {
    bool add_generation_prompt = false;
    /// More variables, an object: tools, documents, enable_thinking ... They take precedence over the
    /// template's own tokens.
    nlohmann::ordered_json extra = nlohmann::ordered_json::object();
    /// The most steps that rendering may take, plus kStepsPerByte for each byte of the conversation.
    std::uint64_t steps = kSteps;
    std::optional<std::time_t> now;  ///< what strftime_now says
  };

  /// `where` begins messages. Throws Error, which says what is wrong or not supported, and the line.
  static ChatTemplate parse(std::string_view text, const std::string& where, Tokens tokens = {});

  /// Throws Error where the template refuses the conversation, fails or takes too many steps, and where there
  /// is no message. Thread-safe.
  std::string render(std::span<const ChatMessage> messages, const Options& options) const;
  /// Messages as JSON: a list of objects, whose members the template sees; members that are null are left
  /// out.
  std::string render(const nlohmann::ordered_json& messages, const Options& options) const;

 private:
  struct Parts;
  ChatTemplate() = default;
  std::shared_ptr<const Parts> parts_;
};

/// The template of the model in the folder `path` ("" for the top), of these the first that is there:
///   chat_template.jinja
///   tokenizer_config.json    chat_template: the text, or a list of {name, template}, of which "default" is
///                            taken, and "tool_use" of conversations with tools, where it is there
/// and the special tokens of tokenizer_config.json, else special_tokens_map.json. Nothing where there is
/// none; Error where it cannot be read.
std::optional<ChatTemplate> load_chat_template(const ReadFile& read, const std::string& path = "",
                                               bool has_tools = false);

}  // namespace crumb::text
