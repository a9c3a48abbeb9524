#include "text/pipeline/steps.h"

namespace crumb::text {
namespace {

Frame read_template(const JsonPlace& place) {
  Frame frame;
  bool seen = false;
  for (const JsonPlace& item : place.list("single")) {
    if (!item.at("Sequence").is_null()) {
      if (seen || item.at("Sequence").string("id") != "A") throw item.refuse("a template with more than $A");
      seen = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").string("id");
    const JsonPlace token = place.at("special_tokens").at(name.c_str());
    if (token.is_null()) throw item.error("the template has no special token of that name");
    for (const JsonPlace& id : token.list("ids")) (seen ? frame.after : frame.before).push_back(id.id());
  }
  if (!seen) throw place.refuse("a template without $A");
  return frame;
}

PairFrame read_pair(const JsonPlace& place) {
  using Part = PairFrame::Part;
  std::vector<Part> parts;
  std::size_t first = 0, second = 0;
  const auto type_of = [](const JsonPlace& item) {
    return item.at("type_id").is_null() ? std::int64_t{0} : std::int64_t{item.at("type_id").id()};
  };
  for (const JsonPlace& item : place.list("pair")) {
    if (const JsonPlace text = item.at("Sequence"); !text.is_null()) {
      const bool is_first = text.string("id") == "A";
      ++(is_first ? first : second);
      parts.push_back({.of = is_first ? Part::Of::kFirst : Part::Of::kSecond, .type = type_of(text)});
      continue;
    }
    const JsonPlace named = item.at("SpecialToken");
    const JsonPlace token = place.at("special_tokens").at(named.string("id").c_str());
    if (token.is_null()) throw item.error("the template has no special token of that name");
    for (const JsonPlace& id : token.list("ids")) parts.push_back({.id = id.id(), .type = type_of(named)});
  }
  if (first != 1 || second != 1) throw place.refuse("a template of pairs without one $A and one $B");
  return PairFrame(std::move(parts));
}

TokenId named_id(const JsonPlace& place, const char* key) {
  const std::vector<JsonPlace> pair = place.list(key);  // [text, id]
  if (pair.size() != 2) throw place.error(std::string(key) + " must be a token and its id");
  return pair[1].id();
}

/// Nothing for a step that puts no tokens around texts.
std::optional<PairFrame> pair_frame_of(const JsonPlace& place) {
  if (place.is_null()) return std::nullopt;
  const std::string type = place.string("type");
  if (type == "TemplateProcessing") return read_pair(place);
  if (type == "RobertaProcessing")
    return PairFrame::of_bert(named_id(place, "cls"), named_id(place, "sep"), 2, 0);
  if (type == "BertProcessing")
    return PairFrame::of_bert(named_id(place, "cls"), named_id(place, "sep"), 1, 1);
  if (type != "Sequence") return std::nullopt;
  std::optional<PairFrame> found;
  for (const JsonPlace& step : place.list("processors")) {
    std::optional<PairFrame> next = pair_frame_of(step);
    if (next && found) throw step.refuse("a second template of pairs");
    if (next) found = std::move(next);
  }
  return found;
}

}  // namespace

PairTemplate read_pair_template(const JsonPlace& place) {
  PairTemplate made;
  try {
    made.frame = pair_frame_of(place).value_or(PairFrame());
  } catch (const Error& error) {
    made = {.frame = std::nullopt, .why = error.what()};
  }
  return made;
}

Frame read_frame(const JsonPlace& place) {
  if (place.is_null()) return {};
  const std::string type = place.string("type");
  if (type == "TemplateProcessing") return read_template(place);
  if (type == "ByteLevel") return {};
  if (type == "RobertaProcessing" || type == "BertProcessing")
    return {{named_id(place, "cls")}, {named_id(place, "sep")}};
  if (type != "Sequence") throw place.refuse("the post-processor " + type);
  Frame frame;
  for (const JsonPlace& step : place.list("processors")) {
    const Frame outer = read_frame(step);
    frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
    frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
  }
  return frame;
}

}  // namespace crumb::text
