// A JSON file of a checkpoint, with messages for people: every access names the file and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace crumb {

class JsonFile {
 public:
  /// Throws crumb::Error when `text` is no JSON object, or exceeds the limits of bounded_json.h.
  JsonFile(std::string name, std::string_view text);

  const std::string& name() const { return name_; }
  const nlohmann::json& root() const { return root_; }

  /// Whether the key is there and not null.
  bool has(const char* key) const;

  /// Returns the value of `key`, or nothing when it is missing or null. Throws crumb::Error when it has
  /// another type.
  std::optional<bool> boolean(const char* key) const;
  std::optional<double> number(const char* key) const;
  std::optional<std::string> string(const char* key) const;
  /// Returns an integer that is at least `least` and fits 31 bits.
  std::optional<size_t> count(const char* key, size_t least = 0) const;
  size_t required_count(const char* key, size_t least) const;

  /// Returns an Error that begins with the file's name.
  Error error(const std::string& what) const { return Error(name_ + ": " + what); }

 private:
  const nlohmann::json* find(const char* key) const;
  Error wrong_type(const char* key, const char* expected) const;

  std::string name_;
  nlohmann::json root_;
};

}  // namespace crumb
