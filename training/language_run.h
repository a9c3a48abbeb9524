// One run of language training into its folder: the trainer trains, this keeps what has to be kept and writes
// the results.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tasks/language/language_trainer.h"
#include "training/json.h"

namespace crumb::training {

struct LanguageRun {
  tasks::LanguageRequest request;
  std::map<std::string, std::string>
      files;                     ///< by path: configuration, tokenizer, what the packed file takes along
  std::filesystem::path folder;  ///< made where it does not exist
  int keep_every = 0;            ///< steps between two states; 0: ten minutes
  bool restart = false;          ///< whether an unfinished run in the folder is dropped
  bool writes = true;            ///< this process does, of those that train together
  tasks::LanguageNews news = {};
};

/// Of processes that train together, one writes, and the others' reports are null. Trains, and writes
/// model.crumb, which `crumb generate` runs, of a recovery adapter/ (PEFT's folder), log.jsonl (a line for
/// each step) and, last, report.json, which it gives, too. Goes on from the state that an unfinished run of
/// the same request kept there (checkpoint.state). Throws what LanguageTrainer::train does.
Json train_language_into(const LanguageRun& run, tasks::LanguageTrainer& trainer);

}  // namespace crumb::training
