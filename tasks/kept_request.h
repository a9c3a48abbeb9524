// Whether an unfinished run that lies in a folder is the one that is asked for.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::tasks {

/// Requests as JSON objects, of everything that decides a run's result. Throws usage Error, which names the field, where the
/// unfinished run's is another.
inline void refuse_other_request(const nlohmann::ordered_json& now, const nlohmann::ordered_json& then) {
  const auto text = [](const nlohmann::ordered_json& value) {
    return quote_text(value.is_string() ? value.get<std::string>() : value.dump());
  };
  for (const auto& [key, value] : now.items()) {
    const nlohmann::ordered_json found =
        then.is_object() && then.contains(key) ? then.at(key) : nlohmann::ordered_json();
    if (found == value) continue;
    throw usage_error("an unfinished run of another kind lies there: its " + key + " is " + text(found) +
                      ", this one's " + text(value) + "; give another folder, or --restart");
  }
}

}  // namespace crumb::tasks
