#include <memory>

#include "text/normalizer.h"
#include "text/pipeline/byte_level.h"
#include "text/pipeline/chars_map.h"
#include "text/pipeline/steps.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

Normalizer of_characters(const std::function<std::u32string(std::u32string)>& change) {
  return [change](const std::string& text) { return unicode::encode(change(unicode::decode(text))); };
}

std::u32string strip(std::u32string_view text, bool left, bool right) {
  while (left && !text.empty() && unicode::is_whitespace(text.front())) text.remove_prefix(1);
  while (right && !text.empty() && unicode::is_whitespace(text.back())) text.remove_suffix(1);
  return std::u32string(text);
}

Normalizer read_bert(const JsonPlace& place) {
  NormalizerOptions options;
  options.clean_text = place.boolean("clean_text", true);
  options.handle_chinese_chars = place.boolean("handle_chinese_chars", true);
  options.lowercase = place.boolean("lowercase", true);
  options.strip_accents = place.boolean("strip_accents", options.lowercase);
  return of_characters([options](const std::u32string& text) { return normalize(text, options); });
}

Normalizer read_precompiled(const JsonPlace& place) {
  const auto bytes = from_base64(place.string("precompiled_charsmap"));
  if (!bytes) throw place.error("precompiled_charsmap is not in base64");
  auto characters = CharsMap::parse(*bytes);
  if (!characters.ok()) throw place.error(characters.failure().message);
  return [table = std::make_shared<const CharsMap>(std::move(characters.value()))](const std::string& text) {
    return table->by_graphemes(text);
  };
}

Normalizer read_sequence(const JsonPlace& place) {
  std::vector<Normalizer> steps;
  for (const JsonPlace& step : place.list("normalizers")) steps.push_back(read_normalizer(step));
  return [steps](std::string text) {
    for (const Normalizer& step : steps) {
      text = step(std::move(text));
      check_text_length(text.size());
    }
    return text;
  };
}

}  // namespace

Pattern read_pattern(const JsonPlace& place) {
  const auto expression = place.optional_string("Regex");
  Result<Pattern> pattern =
      expression ? Pattern::regex(*expression) : Pattern::literal(place.string("String"));
  if (!pattern.ok()) throw place.error(pattern.failure().message);
  return std::move(pattern.value());
}

Normalizer read_normalizer(const JsonPlace& place) {
  using unicode::Form;
  if (place.is_null()) return [](std::string text) { return text; };
  const std::string type = place.string("type");
  if (type == "Sequence") return read_sequence(place);
  if (type == "Prepend") {
    return [prefix = place.string("prepend")](const std::string& text) {
      return text.empty() ? text : prefix + text;
    };
  }
  if (type == "Replace") {
    return [pattern = read_pattern(place.at("pattern")),
            by = place.string("content")](const std::string& text) { return pattern.replace(text, by); };
  }
  if (type == "NFC") return [](const std::string& text) { return unicode::normal_form(text, Form::kNfc); };
  if (type == "NFD") return [](const std::string& text) { return unicode::normal_form(text, Form::kNfd); };
  if (type == "NFKC") return [](const std::string& text) { return unicode::normal_form(text, Form::kNfkc); };
  if (type == "NFKD") return [](const std::string& text) { return unicode::normal_form(text, Form::kNfkd); };
  if (type == "Lowercase")
    return of_characters([](const std::u32string& text) { return unicode::lowercase(text); });
  if (type == "StripAccents") {
    return of_characters([](std::u32string text) {
      std::erase_if(text, unicode::is_mark);
      return text;
    });
  }
  if (type == "Strip") {
    const bool left = place.boolean("strip_left", true), right = place.boolean("strip_right", true);
    return of_characters([left, right](const std::u32string& text) { return strip(text, left, right); });
  }
  if (type == "ByteLevel") return [](const std::string& text) { return bytes_to_characters(text); };
  if (type == "BertNormalizer") return read_bert(place);
  if (type == "Precompiled") return read_precompiled(place);
  throw place.refuse("the normalizer " + type);
}

}  // namespace crumb::text
