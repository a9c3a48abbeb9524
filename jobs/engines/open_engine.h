// Opens LibTorch when a verb needs it: programs that link it take 0.4 s to start.
#pragma once

#include <string>

#include "analysis/accumulator/register_engine.h"
#include "graph/engine.h"
#include "graph/engine_device.h"
#include "graph/gradient_engine.h"
#include "graph/torchscript_reader.h"
#include "tasks/language/language_trainer.h"
#include "tasks/train/trainer.h"

namespace crumb::jobs {

/// Opens libcrumb_engine.so, once: the file that CRUMB_ENGINE names; else the one next to the program (or
/// next to the library that holds this code), in ../lib/crumb or crumb/ from there, or where the system
/// looks. Throws Error that says where it looked, or why the library cannot be opened.
graph::Engine& open_engine();

/// Whether the engine can be opened, for callers who ask before they need it.
struct EngineState {
  std::string path;         ///< of the library; only its name where it was not found
  bool is_named, is_there;  ///< is_named: CRUMB_ENGINE names it; is_there: the file exists
  std::string fault;        ///< why it cannot be opened; empty where it can
  std::string libtorch;     ///< the version of LibTorch that it was built with
};
EngineState engine_state();

/// Other interfaces of the same library.
analysis::RegisterEngine& open_register_engine();
graph::EngineDevice& open_engine_device();
graph::GradientEngine& open_gradient_engine();
graph::TorchScriptReader& open_torchscript_reader();
tasks::Trainer& open_trainer();
tasks::LanguageTrainer& open_language_trainer();

}  // namespace crumb::jobs
