#include "formats/gguf/fields.h"

#include "base/files/text.h"

namespace crumb {

template <class T>
std::optional<T> GgufFields::look_up(const std::string& key, Result<T> (*read)(const GgufValue&)) {
  const GgufValue* value = header_.find(key);
  if (value == nullptr) return std::nullopt;
  Result<T> found = read(*value);
  if (found.ok()) return found.value();
  refuse(key, found.failure().message);
  return std::nullopt;
}

std::optional<std::uint64_t> GgufFields::natural(const std::string& key) {
  return look_up(key, gguf_natural);
}
std::optional<double> GgufFields::number(const std::string& key) { return look_up(key, gguf_number); }
std::optional<bool> GgufFields::flag(const std::string& key) { return look_up(key, gguf_bool); }
std::optional<std::string_view> GgufFields::text(const std::string& key) { return look_up(key, gguf_text); }

std::uint64_t GgufFields::needed(const std::string& key) {
  const std::optional<std::uint64_t> value = natural(key);
  if (!value) refuse(key, "it is missing");
  return value.value_or(0);
}

void GgufFields::refuse(const std::string& key, const std::string& why) {
  if (status_.ok()) status_ = Failure{"metadata " + quote_text(key) + ": " + why};
}

}  // namespace crumb
