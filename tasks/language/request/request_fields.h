// Which fields of a request decide a run's result: an unfinished run must agree in them with the run that
// goes on from it.
//
// Every field of LanguageRequest, and of its parts, is declared here once: as one that decides, with the
// value that identifies it, or as one that does not matter. A field that is not declared does not compile.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

struct RequestFields {
  nlohmann::ordered_json deciding;    ///< by name; checksums of large values
  std::set<std::string> indifferent;  ///< names of the fields that change no bit of the result
};

/// processes, threads: those that compute the run. Reads networks, texts and the teacher's file, if it exists
/// by now, once. Throws Error where that file cannot be read.
RequestFields fields_of(const LanguageRequest& request, int processes, int threads);

}  // namespace crumb::tasks
