// Which fields of a request decide a run's result: what an unfinished run must have in common with the one that goes on from it.
//
// Every field of LanguageRequest, and of what it is made of, is declared here once: as one that decides, with the value by which
// it is known again, or as one that does not matter. One that is not does not compile.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

struct RequestFields {
  nlohmann::ordered_json deciding;    ///< by name; large values by their checksums
  std::set<std::string> indifferent;  ///< names of those that change no bit of the result
};

/// processes, threads: that the run computes on. Reads networks, texts and the teacher's file, if it is there by now, once.
/// Throws Error where that file cannot be read.
RequestFields fields_of(const LanguageRequest& request, int processes, int threads);

}  // namespace crumb::tasks
