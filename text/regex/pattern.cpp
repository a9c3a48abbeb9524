#include "text/regex/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/files/text.h"
#include "base/utf8.h"
#include "text/regex/translate.h"

namespace crumb::text {
namespace {

constexpr std::size_t kLongestExpression = 16'384;
constexpr std::uint32_t kMostDepth = 10'000;
constexpr std::uint32_t kMostHeapKib = 65'536;
constexpr std::size_t kJitStack = 1U << 20;

std::string pcre_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

void check_text_length(std::size_t bytes) {
  if (bytes > kLongestText) {
    throw Error("the tokenizer makes more than " + byte_text(kLongestText) +
                " of the text: only shorter ones are supported");
  }
}

namespace pcre {

struct FreePcre {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

template <class T>
using Owned = std::unique_ptr<T, FreePcre>;

template <class T>
Owned<T> own(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return Owned<T>(made);
}

/// A regular expression, compiled.
struct Compiled {
  explicit Compiled(pcre2_code* made) : code(made) {
    pcre2_jit_compile(made, PCRE2_JIT_COMPLETE);  // where it fails, matches are interpreted
  }
  Owned<pcre2_code> code;
};

}  // namespace pcre

class Pattern::Code {
 public:
  /// `anchored` matches at the start offset only.
  Code(pcre2_code* anywhere, pcre2_code* anchored) : anywhere_(anywhere), anchored_(anchored) {}

  /// Searches one text from left to right.
  class Search {
   public:
    Search(const Code& code, std::string_view text)
        : code_(code),
          text_(text),
          data_(pcre::own(pcre2_match_data_create(1, nullptr))),
          context_(pcre::own(pcre2_match_context_create(nullptr))),
          left_(kMatchSteps + kStepsPerByte * text.size()) {
      pcre2_set_depth_limit(context_.get(), kMostDepth);
      pcre2_set_heap_limit(context_.get(), kMostHeapKib);
    }

    /// The next match from a byte on; false where there is none. Compiled patterns count their steps from
    /// zero at every position, so a search that exceeds the free steps at one is repeated position by
    /// position.
    bool find(std::size_t from, const std::string& expression) {
      const int found = match(code_.anywhere_, from, kFreeSteps);
      if (found != PCRE2_ERROR_MATCHLIMIT) return take(found, expression);
      for (std::size_t at = from; at <= text_.size();) {
        if (take(match_at(at), expression)) return true;
        at += at < text_.size() ? first_character(text_.substr(at)).length : 1;
      }
      return false;
    }

    std::size_t begin = 0, end = 0;

   private:
    int match(const pcre::Compiled& compiled, std::size_t from, std::size_t steps) {
      pcre2_set_match_limit(context_.get(), static_cast<std::uint32_t>(steps));
      const auto run = [&] {
        return pcre2_match(compiled.code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                           from, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      };
      const int found = run();
      if (found != PCRE2_ERROR_JIT_STACKLIMIT || stack_) return found;
      // The stack that is enough for most.
      stack_.reset(pcre2_jit_stack_create(32 * 1024, kJitStack, nullptr));
      if (stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      return stack_ ? run() : found;
    }

    int match_at(std::size_t at) {
      constexpr std::size_t kMost = 2'000'000'000;
      int found = match(code_.anchored_, at, kFreeSteps);
      for (std::size_t steps = 16 * kFreeSteps; found == PCRE2_ERROR_MATCHLIMIT && left_ > 0; steps *= 16) {
        steps = std::min({steps, left_, kMost});
        found = match(code_.anchored_, at, steps);
        left_ -= steps;
      }
      return found;
    }

    bool take(int found, const std::string& expression) {
      if (found == PCRE2_ERROR_NOMATCH) return false;
      if (found < 0) {
        throw Error("the regular expression " + quote_text(expression) + " takes too much on a text of " +
                    byte_text(text_.size()) + " (" + pcre_message(found) + ")");
      }
      const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(data_.get());
      begin = bounds[0];
      end = bounds[1];
      return true;
    }

    const Code& code_;
    std::string_view text_;
    pcre::Owned<pcre2_match_data> data_;
    pcre::Owned<pcre2_match_context> context_;
    pcre::Owned<pcre2_jit_stack> stack_;
    std::size_t left_;  // steps beyond the free ones
  };

 private:
  pcre::Compiled anywhere_, anchored_;
};

Result<Pattern> Pattern::regex(std::string_view expression) {
  const auto fail = [&](const std::string& why) {
    return Failure{"the regular expression " + quote_text(expression) + ": " + why};
  };
  if (expression.size() > kLongestExpression)
    return fail("it is longer than " + byte_text(kLongestExpression));
  const Result<std::string> translated = translate_regex(expression);
  if (!translated.ok()) return fail(translated.failure().message);
  const std::string& text = translated.value();
  int code = 0;
  PCRE2_SIZE at = 0;
  const auto compile = [&](std::uint32_t more) {
    constexpr std::uint32_t kFlags = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), kFlags | more, &code, &at,
                         nullptr);
  };
  pcre::Owned<pcre2_code> anywhere(compile(0));
  if (!anywhere) return fail(pcre_message(code));
  pcre::Owned<pcre2_code> anchored(compile(PCRE2_ANCHORED));
  if (!anchored) return fail(pcre_message(code));
  Pattern pattern;
  pattern.code_ = std::make_shared<Code>(anywhere.release(), anchored.release());
  pattern.expression_ = expression;
  return pattern;
}

Result<Pattern> Pattern::literal(std::string_view text) {
  if (text.empty()) return Failure{"the text that is searched for is empty"};
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

std::vector<Stretch> Pattern::split(std::string_view text) const {
  std::vector<Stretch> stretches;
  std::size_t covered = 0;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (covered != begin) stretches.push_back({covered, begin, false});
    stretches.push_back({begin, end, true});
    covered = end;
  };
  if (text.empty()) return stretches;
  if (!code_) {
    for (std::size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;
         at += literal_.size()) {
      add(at, at + literal_.size());
    }
  } else {
    Code::Search search(*code_, text);
    std::size_t last_end = SIZE_MAX;
    for (std::size_t from = 0; from <= text.size() && search.find(from, expression_);) {
      if (search.begin == search.end && search.end == last_end) {
        from += from < text.size() ? first_character(text.substr(from)).length : 1;
        continue;
      }
      add(search.begin, search.end);
      from = last_end = search.end;
    }
  }
  if (covered != text.size()) stretches.push_back({covered, text.size(), false});
  return stretches;
}

std::string Pattern::replace(std::string_view text, std::string_view by) const {
  std::string out;
  for (const Stretch& stretch : split(text)) {
    out += stretch.is_match ? by : text.substr(stretch.begin, stretch.end - stretch.begin);
    check_text_length(out.size());
  }
  return out;
}

}  // namespace crumb::text
