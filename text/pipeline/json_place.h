// A value of a JSON file and its path, for messages.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace crumb::text {

class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  /// A member; null where there is none. Throws Error where this is no object.
  JsonPlace at(const char* key) const;
  /// The elements of a member that is a list. Throws Error where it is none.
  std::vector<JsonPlace> list(const char* key) const;
  std::string string(const char* key) const;
  std::optional<std::string> optional_string(const char* key) const;
  bool boolean(const char* key, bool otherwise) const;
  std::size_t count(const char* key) const;
  /// A value of 0 to 2^31 - 1.
  std::int32_t id() const;

  Error error(const std::string& what) const { return Error(where_ + ": " + what); }
  /// "... is not supported".
  Error refuse(const std::string& what) const { return error(what + " is not supported"); }

 private:
  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace crumb::text
