// Checks that the unfinished run in a folder is the one that is requested.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::tasks {

/// Compares requests as JSON objects, of everything that decides a run's result. Throws usage Error, which
/// names the field, where the unfinished run's differs.
inline void refuse_other_request(const nlohmann::ordered_json& now, const nlohmann::ordered_json& then) {
  const auto text = [](const nlohmann::ordered_json& value) {
    return quote_text(value.is_string() ? value.get<std::string>() : value.dump());
  };
  const auto of = [](const nlohmann::ordered_json& request, const std::string& key) {
    return request.is_object() && request.contains(key) ? request.at(key) : nlohmann::ordered_json();
  };
  const auto compare = [&](const std::string& key) {
    if (of(then, key) == of(now, key)) return;
    throw usage_error("an unfinished run of another kind lies there: its " + key + " is " +
                      text(of(then, key)) + ", this one's " + text(of(now, key)) +
                      "; give another folder, or --restart");
  };
  for (const auto& [key, value] : now.items()) compare(key);
  if (!then.is_object()) return;
  for (const auto& [key, value] : then.items()) compare(key);
}

}  // namespace crumb::tasks
