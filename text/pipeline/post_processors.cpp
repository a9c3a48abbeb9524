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

TokenId named_id(const JsonPlace& place, const char* key) {
  const std::vector<JsonPlace> pair = place.list(key);  // [text, id]
  if (pair.size() != 2) throw place.error(std::string(key) + " must be a token and its id");
  return pair[1].id();
}

}  // namespace

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
