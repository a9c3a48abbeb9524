#include "text/normalizer.h"

#include "text/unicode.h"

namespace crumb::text {
namespace {

std::u32string clean(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c == 0 || c == unicode::kReplacement || unicode::is_control(c)) continue;
    out.push_back(unicode::is_whitespace(c) ? U' ' : c);
  }
  return out;
}

std::u32string space_out_cjk(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (unicode::is_cjk(c)) {
      out += {U' ', c, U' '};
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

std::u32string normalize(std::u32string_view text, const NormalizerOptions& options) {
  std::u32string out(text);
  if (options.lowercase_first) out = unicode::lowercase(out);
  if (options.clean_text) out = clean(out);
  if (options.handle_chinese_chars) out = space_out_cjk(out);
  if (options.strip_accents) {
    out = unicode::nfd(out);
    std::erase_if(out, unicode::is_nonspacing_mark);
  }
  if (options.lowercase) out = unicode::lowercase(out);
  return out;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  size_t start = 0;
  const auto close = [&](size_t end) {
    if (end > start) words.push_back(text.substr(start, end - start));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool punctuation = unicode::is_punctuation(text[i]);
    if (!punctuation && !unicode::is_whitespace(text[i])) continue;
    close(i);
    if (punctuation) words.push_back(text.substr(i, 1));
    start = i + 1;
  }
  close(text.size());
  return words;
}

}  // namespace crumb::text
