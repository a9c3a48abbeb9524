#include "text/pipeline/decoders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/files/text.h"
#include "base/utf8.h"
#include "text/pipeline/byte_level.h"
#include "text/pipeline/steps.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

using Next = std::unique_ptr<TokenSink>;

/// A stage that changes nothing.
class Stage : public TokenSink {
 public:
  explicit Stage(Next next) : next_(std::move(next)) {}
  void add(std::string_view part) override { next_->add(part); }
  void end_token() override { next_->end_token(); }
  void finish() override { next_->finish(); }

 protected:
  void put(std::string_view token) {
    next_->add(token);
    next_->end_token();
  }
  TokenSink& next() { return *next_; }

 private:
  Next next_;
};

/// A stage that takes whole tokens.
class TokenStage : public Stage {
 public:
  using Stage::Stage;
  void add(std::string_view part) final { token_ += part; }
  void end_token() final { take(std::exchange(token_, {})); }

 protected:
  virtual void take(std::string token) = 0;

 private:
  std::string token_;
};

class Words : public Stage {
 public:
  using Stage::Stage;
  void add(std::string_view part) override {
    if (std::exchange(between_, false)) Stage::add(" ");
    Stage::add(part);
  }
  void end_token() override {
    if (between_) Stage::add(" ");  // the token was empty
    between_ = true;
    Stage::end_token();
  }

 private:
  bool between_ = false;
};

class Fuse : public Stage {
 public:
  using Stage::Stage;
  void end_token() override {}
  void finish() override {
    Stage::end_token();
    Stage::finish();
  }
};

/// The bytes of all tokens are one text; ill-formed ones become U+FFFD.
class Bytes : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void finish() override {
    put_text(true);
    next().end_token();
    next().finish();
  }

 protected:
  void take(std::string token) override {
    bytes_ += characters_to_bytes(token);
    put_text(false);
  }

 private:
  /// Whether more bytes may complete a character: there are fewer than four, and the first one asks for more.
  static bool may_grow(std::string_view bytes) {
    for (const char* const end : {"\x80", "\x80\x80", "\x80\x80\x80", "\xBF", "\xBF\xBF", "\xBF\xBF\xBF"}) {
      if (utf8_character(std::string(bytes) + end) > bytes.size()) return true;
    }
    return false;
  }

  void put_text(bool all) {
    std::string text;
    std::string_view rest = bytes_;
    while (!rest.empty()) {
      const Utf8Character first = first_character(rest);
      if (!all && first.length == rest.size() && !first.sound && may_grow(rest)) break;
      unicode::append_utf8(first.code, text);
      rest.remove_prefix(first.length);
    }
    bytes_.erase(0, bytes_.size() - rest.size());
    if (!text.empty()) next().add(text);
  }

  std::string bytes_;  // less than a character between tokens
};

/// Tokens such as <0x0A> are bytes. A run of them is a text, or a U+FFFD for each where it is ill-formed.
class ByteFallback : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void finish() override {
    flush();
    next().finish();
  }

 protected:
  void take(std::string token) override {
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
      const bool plus = token[3] == '+';  // as Rust reads numbers
      unsigned value = 0;
      const char* const end = token.data() + 5;
      const auto [stop, error] = std::from_chars(token.data() + 3 + plus, end, value, 16);
      if (error == std::errc() && stop == end) {
        run_ += static_cast<char>(value);
        return;
      }
    }
    flush();
    put(token);
  }

 private:
  void flush() {
    const std::string run = std::exchange(run_, {});
    if (run.empty()) return;
    if (is_utf8(run)) return put(run);
    for (std::size_t i = 0; i < run.size(); ++i) put("\xEF\xBF\xBD");
  }

  std::string run_;
};

/// Its character becomes a space, or nothing in the first token where the pre-tokenizer added it.
class Spaces : public Stage {
 public:
  Spaces(Next next, const Metaspace& meta)
      : Stage(std::move(next)),
        character_(Pattern::literal(meta.replacement).take()),
        drops_(meta.prepend != Metaspace::Prepend::kNever) {}
  void add(std::string_view part) override { Stage::add(character_.replace(part, drops_ ? "" : " ")); }
  void end_token() override {
    drops_ = false;
    Stage::end_token();
  }

 private:
  Pattern character_;
  bool drops_;
};

/// Replaces matches of a regular expression, each in one token.
class ReplaceMatches : public TokenStage {
 public:
  ReplaceMatches(Next next, Pattern pattern, std::string by)
      : TokenStage(std::move(next)), pattern_(std::move(pattern)), by_(std::move(by)) {}

 protected:
  void take(std::string token) override { put(pattern_.replace(token, by_)); }

 private:
  Pattern pattern_;
  std::string by_;
};

/// Replaces a text as its characters come: only what may be its beginning is held back.
class ReplaceText : public Stage {
 public:
  ReplaceText(Next next, std::string text, std::string by)
      : Stage(std::move(next)), text_(std::move(text)), by_(std::move(by)) {}
  void add(std::string_view part) override {
    held_ += part;
    std::string out;
    std::string_view rest = held_;
    for (std::size_t at = 0; (at = rest.find(text_)) != std::string_view::npos;) {
      out += rest.substr(0, at);
      out += by_;
      check_text_length(out.size());
      rest.remove_prefix(at + text_.size());
    }
    const std::size_t keep = beginning(rest);
    out += rest.substr(0, rest.size() - keep);
    held_.erase(0, held_.size() - keep);
    if (!out.empty()) Stage::add(out);
  }
  void end_token() override {
    if (!held_.empty()) Stage::add(std::exchange(held_, {}));
    Stage::end_token();
  }

 private:
  /// How many bytes at the end of `rest` are a beginning of the text.
  std::size_t beginning(std::string_view rest) const {
    std::size_t size = std::min(text_.size() - 1, rest.size());
    while (size > 0 && !text_.starts_with(rest.substr(rest.size() - size))) --size;
    return size;
  }

  std::string text_, by_, held_;
};

/// Removes up to `left` of a character from a token's beginning, and up to `right` from its end.
class StripStage : public Stage {
 public:
  StripStage(Next next, std::string content, std::size_t left, std::size_t right)
      : Stage(std::move(next)), content_(std::move(content)), left_(left), right_(right) {}
  void add(std::string_view part) override {
    std::string out;
    while (!part.empty()) {
      const std::string_view c = part.substr(0, first_character(part).length);
      part.remove_prefix(c.size());
      if (c != content_) {
        for (begun_ = left_; held_ > 0; --held_) out += content_;
        out += c;
      } else if (begun_ < left_) {
        ++begun_;
      } else if (held_ < right_) {
        ++held_;
      } else {
        out += content_;
      }
    }
    if (!out.empty()) Stage::add(out);
  }
  void end_token() override {
    begun_ = held_ = 0;
    Stage::end_token();
  }

 private:
  std::string content_;
  std::size_t left_, right_;
  std::size_t begun_ = 0;  // how many were removed; left_ behind another character
  std::size_t held_ = 0;   // how many wait for the token's end
};

/// The suffix of words becomes a space, but not at the end of the text.
class WordEnds : public TokenStage {
 public:
  WordEnds(Next next, const std::string& suffix)
      : TokenStage(std::move(next)), suffix_(Pattern::literal(suffix).take()) {}
  void finish() override {
    if (held_) put(suffix_.replace(*held_, ""));
    next().finish();
  }

 protected:
  void take(std::string token) override {
    if (held_) put(suffix_.replace(*held_, " "));
    held_ = std::move(token);
  }

 private:
  Pattern suffix_;
  std::optional<std::string> held_;
};

/// WordPiece's tokens: a space before each except the first, continuations and punctuation.
class Pieces : public TokenStage {
 public:
  Pieces(Next next, std::string prefix, bool cleans_up)
      : TokenStage(std::move(next)), prefix_(std::move(prefix)), cleans_up_(cleans_up) {}

 protected:
  void take(std::string token) override {
    if (!std::exchange(is_first_, false))
      token = token.starts_with(prefix_) ? token.substr(prefix_.size()) : " " + token;
    if (cleans_up_) clean(token);
    put(token);
  }

 private:
  static void clean(std::string& token) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kChanges = {
        {{" .", "."},
         {" ?", "?"},
         {" !", "!"},
         {" ,", ","},
         {" ' ", "'"},
         {" n't", "n't"},
         {" 'm", "'m"},
         {" do not", " don't"},
         {" 's", "'s"},
         {" 've", "'ve"},
         {" 're", "'re"}}};
    for (const auto& [what, by] : kChanges) {
      for (std::size_t at = 0; (at = token.find(what, at)) != std::string::npos; at += by.size())
        token.replace(at, what.size(), by);
    }
  }

  std::string prefix_;
  bool cleans_up_;
  bool is_first_ = true;
};

template <class T, class... Options>
Decoder stage(const Options&... options) {
  return [=](Next next) { return std::make_unique<T>(std::move(next), options...); };
}

Decoder read_replace(const JsonPlace& place) {
  const JsonPlace pattern = place.at("pattern");
  const std::string by = place.string("content");
  const Pattern compiled = read_pattern(pattern);
  if (pattern.at("Regex").is_null()) return stage<ReplaceText>(pattern.string("String"), by);
  return stage<ReplaceMatches>(compiled, by);
}

Decoder read_strip(const JsonPlace& place) {
  const std::string content = place.string("content");
  if (utf8_character(content) != content.size() || content.empty())
    throw place.error("its content is not one character");
  return stage<StripStage>(content, place.count("start"), place.count("stop"));
}

Decoder read_decoders(const JsonPlace& place) {
  std::vector<Decoder> steps;
  for (const JsonPlace& step : place.list("decoders")) {
    if (step.is_null()) throw step.error("expected a JSON object");
    steps.push_back(read_decoder(step));
  }
  return [steps](Next next) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) next = (*step)(std::move(next));
    return next;
  };
}

}  // namespace

Decoder read_decoder(const JsonPlace& place) {
  if (place.is_null()) return stage<Words>();
  const std::string type = place.string("type");
  if (type == "Sequence") return read_decoders(place);
  if (type == "Fuse") return stage<Fuse>();
  if (type == "ByteLevel") return stage<Bytes>();
  if (type == "ByteFallback") return stage<ByteFallback>();
  if (type == "Metaspace") return stage<Spaces>(Metaspace::read(place));
  if (type == "Replace") return read_replace(place);
  if (type == "Strip") return read_strip(place);
  if (type == "BPEDecoder") {
    const std::string suffix = place.optional_string("suffix").value_or("</w>");
    if (suffix.empty()) throw place.error("its suffix is empty");
    return stage<WordEnds>(suffix);
  }
  if (type == "WordPiece")
    return stage<Pieces>(place.optional_string("prefix").value_or("##"), place.boolean("cleanup", true));
  throw place.refuse("the decoder " + type);
}

}  // namespace crumb::text
