#include "text/pipeline/json_place.h"

namespace crumb::text {

JsonPlace JsonPlace::at(const char* key) const {
  static const nlohmann::json kNull;
  if (!value_->is_object()) throw error("expected a JSON object");
  const auto entry = value_->find(key);
  return {entry == value_->end() ? kNull : *entry, where_ + "." + key};
}

std::vector<JsonPlace> JsonPlace::list(const char* key) const {
  const JsonPlace member = at(key);
  if (!member.value().is_array()) throw member.error("expected a list");
  std::vector<JsonPlace> places;
  for (const auto& value : member.value())
    places.push_back({value, member.where_ + "[" + std::to_string(places.size()) + "]"});
  return places;
}

std::string JsonPlace::string(const char* key) const {
  const JsonPlace member = at(key);
  if (!member.value().is_string()) throw member.error("expected a string");
  return member.value().get<std::string>();
}

std::optional<std::string> JsonPlace::optional_string(const char* key) const {
  return at(key).is_null() ? std::nullopt : std::optional(string(key));
}

bool JsonPlace::boolean(const char* key, bool otherwise) const {
  const JsonPlace member = at(key);
  if (member.is_null()) return otherwise;
  if (!member.value().is_boolean()) throw member.error("expected true or false");
  return member.value().get<bool>();
}

std::size_t JsonPlace::count(const char* key) const { return static_cast<std::size_t>(at(key).id()); }

std::int32_t JsonPlace::id() const {
  if (value_->is_number_integer() && value_->get<double>() >= 0 && value_->get<double>() <= 0x7FFFFFFF)
    return value_->get<std::int32_t>();
  throw error("expected an integer of 0 to 2147483647");
}

}  // namespace crumb::text
