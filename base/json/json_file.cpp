#include "base/json/json_file.h"

#include <span>
#include <utility>

#include "base/json/bounded_json.h"

namespace crumb {
namespace {

constexpr size_t kLargestCount = 0x7FFFFFFF;

std::string quoted(const char* key) { return std::string(1, '"').append(key).append(1, '"'); }

/// Returns a value for a message, shortened.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

JsonFile::JsonFile(std::string name, std::string_view text) : name_(std::move(name)) {
  root_ = parse_bounded_json(std::as_bytes(std::span(text))).take(name_);
  if (!root_.is_object()) throw error("expected a JSON object, found " + shown(root_));
}

const nlohmann::json* JsonFile::find(const char* key) const {
  const auto entry = root_.find(key);
  return entry == root_.end() || entry->is_null() ? nullptr : &*entry;
}

bool JsonFile::has(const char* key) const { return find(key) != nullptr; }

Error JsonFile::wrong_type(const char* key, const char* expected) const {
  return error(quoted(key) + " must be " + expected + ", found " + shown(root_.at(key)));
}

std::optional<bool> JsonFile::boolean(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw wrong_type(key, "true or false");
  return value->get<bool>();
}

std::optional<double> JsonFile::number(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) throw wrong_type(key, "a number");
  return value->get<double>();
}

std::optional<std::string> JsonFile::string(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw wrong_type(key, "a string");
  return value->get<std::string>();
}

std::optional<size_t> JsonFile::count(const char* key, size_t least) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() || value->get<double>() < static_cast<double>(least) ||
      value->get<double>() > static_cast<double>(kLargestCount)) {
    throw wrong_type(key, ("an integer of " + std::to_string(least) + " or more").c_str());
  }
  return value->get<size_t>();
}

size_t JsonFile::required_count(const char* key, size_t least) const {
  const auto value = count(key, least);
  if (!value) throw error(quoted(key) + " is missing");
  return *value;
}

}  // namespace crumb
