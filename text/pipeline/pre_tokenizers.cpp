#include <algorithm>

#include "base/files/text.h"
#include "base/utf8.h"
#include "text/pipeline/byte_level.h"
#include "text/pipeline/steps.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
using Cut = std::function<std::vector<Stretch>(std::string_view)>;

Behavior read_behavior(const JsonPlace& place, const std::string& name) {
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  throw place.refuse("the behavior " + name);
}

/// Joins or drops stretches by the behavior.
std::vector<Stretch> arrange(std::vector<Stretch> stretches, Behavior behavior) {
  std::vector<Stretch> out;
  bool previous = false;
  switch (behavior) {
    case Behavior::kIsolated: return stretches;
    case Behavior::kRemoved:
      std::erase_if(stretches, [](const Stretch& s) { return s.is_match; });
      return stretches;
    case Behavior::kMergedWithNext:
      std::ranges::reverse(stretches);
      for (const Stretch& s : stretches) {
        if (s.is_match && !previous && !out.empty()) {
          out.back().begin = s.begin;
        } else {
          out.push_back(s);
        }
        previous = s.is_match;
      }
      std::ranges::reverse(out);
      return out;
    case Behavior::kMergedWithPrevious:
    case Behavior::kContiguous:
      for (const Stretch& s : stretches) {
        const bool joins =
            behavior == Behavior::kContiguous ? s.is_match == previous : s.is_match && !previous;
        if (joins && !out.empty()) {
          out.back().end = s.end;
        } else {
          out.push_back(s);
        }
        previous = s.is_match;
      }
      return out;
  }
  return out;
}

PreTokenizer split_by(const Cut& cut, Behavior behavior) {
  return [cut, behavior](const std::vector<Part>& parts) {
    std::vector<Part> out;
    for (const Part& part : parts) {
      for (const Stretch& s : arrange(cut(part.text), behavior)) {
        if (s.begin < s.end)
          out.push_back({part.text.substr(s.begin, s.end - s.begin), part.first && s.begin == 0});
      }
    }
    return out;
  };
}

/// Every character for which `is` holds is a match of its own.
Cut cut_characters(const std::function<bool(char32_t)>& is) {
  return [is](std::string_view text) {
    std::vector<Stretch> out;
    std::size_t covered = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Character c = first_character(text.substr(at));
      if (is(c.code)) {
        if (covered < at) out.push_back({covered, at, false});
        covered = at + c.length;
        out.push_back({at, covered, true});
      }
      at += c.length;
    }
    if (covered < text.size()) out.push_back({covered, text.size(), false});
    return out;
  };
}

Cut cut_pattern(Pattern pattern, bool invert = false) {
  return [pattern = std::move(pattern), invert](std::string_view text) {
    std::vector<Stretch> out = pattern.split(text);
    for (Stretch& s : out) s.is_match ^= invert;
    return out;
  };
}

PreTokenizer in_order(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](std::vector<Part> parts) {
    for (const PreTokenizer& step : steps) {
      parts = step(std::move(parts));
      std::size_t bytes = 0;
      for (const Part& part : parts) bytes += part.text.size();
      check_text_length(bytes);
    }
    return parts;
  };
}

PreTokenizer prefix_space() {
  return [](std::vector<Part> parts) {
    for (Part& part : parts) {
      if (!part.text.starts_with(' ')) part.text.insert(0, 1, ' ');
    }
    return parts;
  };
}

PreTokenizer read_byte_level(const JsonPlace& place) {
  constexpr std::string_view kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  std::vector<PreTokenizer> steps;
  if (place.boolean("add_prefix_space", true)) steps.push_back(prefix_space());
  if (place.boolean("use_regex", true))
    steps.push_back(split_by(cut_pattern(Pattern::regex(kGpt2).take()), Behavior::kIsolated));
  steps.push_back([](std::vector<Part> parts) {
    for (Part& part : parts) part.text = bytes_to_characters(part.text);
    return parts;
  });
  return in_order(std::move(steps));
}

PreTokenizer read_metaspace(const JsonPlace& place) {
  const Metaspace meta = Metaspace::read(place);
  PreTokenizer write = [meta, space = Pattern::literal(" ").take()](std::vector<Part> parts) {
    for (Part& part : parts) {
      part.text = space.replace(part.text, meta.replacement);
      const bool may = meta.prepend == Metaspace::Prepend::kAlways ||
                       (meta.prepend == Metaspace::Prepend::kFirst && part.first);
      if (may && !part.text.starts_with(meta.replacement)) part.text.insert(0, meta.replacement);
    }
    return parts;
  };
  if (!meta.split) return write;
  return in_order({std::move(write), split_by(cut_pattern(Pattern::literal(meta.replacement).take()),
                                              Behavior::kMergedWithNext)});
}

PreTokenizer read_whitespace() {
  constexpr auto kind = [](char32_t c) {
    return unicode::is_whitespace(c) ? 0 : unicode::is_word(c) ? 1 : 2;
  };
  return split_by(
      [kind](std::string_view text) {
        std::vector<Stretch> out;
        int last = -1;
        for (std::size_t at = 0; at < text.size();) {
          const Utf8Character c = first_character(text.substr(at));
          const int now = kind(c.code);
          if (now != last) out.push_back({at, at, now == 0});
          out.back().end = at += c.length;
          last = now;
        }
        return out;
      },
      Behavior::kRemoved);
}

}  // namespace

Metaspace Metaspace::read(const JsonPlace& place) {
  Metaspace meta;
  meta.replacement = place.optional_string("replacement").value_or(meta.replacement);
  if (meta.replacement.empty() || utf8_character(meta.replacement) != meta.replacement.size())
    throw place.error("its replacement is not one character");
  const std::string scheme = place.optional_string("prepend_scheme").value_or("always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw place.refuse("the prepend_scheme " + scheme);
  meta.prepend = scheme == "always"  ? Prepend::kAlways
                 : scheme == "first" ? Prepend::kFirst
                                     : Prepend::kNever;
  if (!place.boolean("add_prefix_space", true)) meta.prepend = Prepend::kNever;
  meta.split = place.boolean("split", true);
  return meta;
}

PreTokenizer read_pre_tokenizer(const JsonPlace& place) {
  if (place.is_null()) return in_order({});
  const std::string type = place.string("type");
  if (type == "Sequence") {
    std::vector<PreTokenizer> steps;
    for (const JsonPlace& step : place.list("pretokenizers")) steps.push_back(read_pre_tokenizer(step));
    return in_order(std::move(steps));
  }
  if (type == "ByteLevel") return read_byte_level(place);
  if (type == "Split") {
    return split_by(cut_pattern(read_pattern(place.at("pattern")), place.boolean("invert", false)),
                    read_behavior(place, place.string("behavior")));
  }
  if (type == "Digits") {
    return split_by(cut_characters(unicode::is_numeric),
                    place.boolean("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Metaspace") return read_metaspace(place);
  if (type == "Punctuation") {
    return split_by(cut_characters(unicode::is_punctuation),
                    read_behavior(place, place.optional_string("behavior").value_or("Isolated")));
  }
  if (type == "Whitespace") return read_whitespace();
  const PreTokenizer at_spaces = split_by(cut_characters(unicode::is_whitespace), Behavior::kRemoved);
  if (type == "WhitespaceSplit") return at_spaces;
  if (type == "BertPreTokenizer")
    return in_order({at_spaces, split_by(cut_characters(unicode::is_punctuation), Behavior::kIsolated)});
  throw place.refuse("the pre-tokenizer " + type);
}

}  // namespace crumb::text
