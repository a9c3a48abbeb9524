#include "jobs/samples/training_text.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/within.h"
#include "jobs/samples/tokenized_text.h"
#include "text/chat/chat_template.h"
#include "text/chat/messages.h"
#include "text/chat/python_text.h"

namespace crumb::jobs {
namespace {

using Messages = nlohmann::ordered_json;

/// A piece of a conversation's text: an answer, or the text between answers.
struct Piece {
  std::string text;
  bool counts = false;
};
using Pieces = std::vector<Piece>;

class ConversationReader {
 public:
  ConversationReader(const text::ChatTemplate& chat, const text::ChatConversation& conversation)
      : chat_(chat),
        messages_(conversation.messages),
        extra_(conversation.extra),
        is_cut_(conversation.is_cut) {}

  /// Returns one sample for the conversation, or one for each answer.
  std::vector<Pieces> samples() const {
    std::vector<Pieces> each;
    Pieces together;
    std::string done;  // the part of the whole text that the pieces cover
    bool is_one = true;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].value("role", "") != "assistant") continue;
      const std::string prompt = rendered(i, true), with_answer = rendered(i + 1, false);
      if (!with_answer.starts_with(prompt))
        throw Error("the template writes answer " + std::to_string(each.size() + 1) +
                    " otherwise than behind its own prompt");
      std::string answer = with_answer.substr(prompt.size());
      if (is_cut_ && i + 1 == messages_.size()) answer = without_end(answer, prompt);
      is_one = is_one && prompt.starts_with(done);
      if (is_one) {
        together.push_back({prompt.substr(done.size()), false});
        together.push_back({answer, true});
        done = with_answer;
      }
      each.push_back({{prompt, false}, {std::move(answer), true}});
    }
    if (is_one && !each.empty()) return {std::move(together)};
    return each;
  }

 private:
  /// Returns the first messages as the template renders them; for none, what it writes before the text of an
  /// answer that opens the conversation.
  std::string rendered(std::size_t count, bool is_prompt) const {
    Messages first = Messages::array();
    for (std::size_t i = 0; i < count; ++i) first.push_back(messages_[i]);
    if (count > 0) return render(first, is_prompt);
    first.push_back(messages_[0]);
    if (!is_text(first[0])) return {};
    first[0]["content"] = std::string(kMark) + content_of(first[0]);
    const std::string whole = render(first, false);
    return whole.substr(0, std::min(whole.find(kMark), whole.size()));
  }

  /// Returns the answer up to where the last message's text ends: where a mark after that text would stand,
  /// as transformers finds it. A template that trims removes the blank after the mark, and so would remove
  /// the text's.
  std::string without_end(const std::string& answer, const std::string& prompt) const {
    Messages all = messages_;
    Messages& last = all.back();
    if (is_text(last)) {
      last["content"] = content_of(last) + std::string(kMark) + " ";
      const std::string marked = render(all, false);
      const std::size_t at = marked.rfind(kMark);
      if (at != std::string::npos && at >= prompt.size()) {
        const std::string text = marked.substr(prompt.size(), at - prompt.size());
        const bool trims = marked.substr(at + kMark.size(), 1) != " ";
        const std::string end(trims ? text::chat::strip(text, false, true) : text);
        if (answer.starts_with(end)) return end;
      }
    }
    throw Error("continue_final_message, and the template does not write the last answer's text as it is");
  }

  static constexpr std::string_view kMark = "MarkOfThisPlace";

  static bool is_text(const Messages& message) {
    return message.contains("content") && message["content"].is_string();
  }
  static std::string content_of(const Messages& message) { return message["content"].get<std::string>(); }

  std::string render(const Messages& messages, bool is_prompt) const {
    return chat_.render(messages, {.add_generation_prompt = is_prompt, .extra = extra_});
  }

  const text::ChatTemplate& chat_;
  const Messages &messages_, &extra_;
  bool is_cut_;
};

/// Appends the tokens of the whole text. An answer's tokens count from the first that differs from the tokens
/// of the text before it, to the last that the text up to its end has: a tokenizer may join pieces, or begin
/// each text in its own way.
void append(const Pieces& pieces, const text::TextTokenizer& tokenizer, tasks::LanguageText& text) {
  // A template writes all the special tokens itself.
  const auto encoded = [&](const std::string& part) { return tokenizer.encode(part, false); };
  std::string whole;
  for (const Piece& piece : pieces) whole += piece.text;
  const std::vector<text::TokenId> ids = encoded(whole);
  std::vector<std::uint8_t> counts;
  std::string before;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    before += pieces[i].text;
    const bool is_last = i + 1 == pieces.size();
    const std::vector<text::TokenId> alone = is_last ? ids : encoded(before);
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(ids, alone).in1 - ids.begin());
    counts.resize(std::max(counts.size(), same), pieces[i].counts ? 1 : 0);
  }
  text.tokens.insert(text.tokens.end(), ids.begin(), ids.end());
  text.counts.insert(text.counts.end(), counts.begin(), counts.end());
}

void append_text(const std::string& whole, const text::TextTokenizer& tokenizer, tasks::LanguageText& text) {
  std::vector<text::TokenId> ids = tokenizer.encode(whole);
  if (tokenizer.eos() && (ids.empty() || ids.back() != *tokenizer.eos())) ids.push_back(*tokenizer.eos());
  const bool begins_with_first = tokenizer.first_token() && ids[0] == *tokenizer.first_token();
  text.tokens.insert(text.tokens.end(), ids.begin(), ids.end());
  if (begins_with_first) text.counts.push_back(0);
  text.counts.resize(text.tokens.size(), 1);
}

}  // namespace

tasks::LanguageText training_text_of_lines(const std::string& file, std::string_view lines,
                                           const text::TextTokenizer& tokenizer, const text::ReadFile& read,
                                           Observer& observer) {
  std::optional<text::ChatTemplate> templates[2];  // for conversations without tools, and with tools
  const auto template_of = [&](const text::ChatConversation& conversation) -> const text::ChatTemplate& {
    const bool has_tools = conversation.extra.contains("tools");
    std::optional<text::ChatTemplate>& chat = templates[has_tools ? 1 : 0];
    if (!chat) chat = text::load_chat_template(read, "", has_tools);
    if (!chat)
      throw Error(quote_text(file) +
                  " holds conversations, and the model has no chat template: neither "
                  "chat_template.jinja nor one in tokenizer_config.json");
    return *chat;
  };
  tasks::LanguageText text;
  std::size_t number = 0, without = 0;
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string where = file + " line " + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto found = text::parse_text_or_conversation(line, where);
    if (const auto* whole = std::get_if<std::string>(&found)) {
      append_text(*whole, tokenizer, text);
      continue;
    }
    const auto& conversation = std::get<text::ChatConversation>(found);
    const text::ChatTemplate& of_model = template_of(conversation);
    try {
      const std::vector<Pieces> samples = ConversationReader(of_model, conversation).samples();
      for (const Pieces& pieces : samples) append(pieces, tokenizer, text);
      without += samples.empty() ? 1 : 0;
    } catch (const Error& error) {
      throw within_file(where, error);
    }
  }
  if (text.empty())
    throw Error(quote_text(file) + " holds no answer, no message whose role is assistant, and no text");
  if (without > 0)
    observer.note(count_text(without, "conversation") + " of " + quote_text(file) +
                  " without an answer, no message whose role is assistant, left out");
  return text;
}

tasks::LanguageText read_training_text(const std::string& file, const text::TextTokenizer& tokenizer,
                                       const text::ReadFile& read, Observer& observer) {
  if (holds_lines(file))
    return training_text_of_lines(file, read_tokenized_file(file, observer), tokenizer, read, observer);
  const std::vector<text::TokenId> ids = tokenizer.encode(read_tokenized_text(file, observer), false);
  return {.tokens = {ids.begin(), ids.end()}, .counts = {}};
}

}  // namespace crumb::jobs
