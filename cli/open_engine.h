// LibTorch, opened when a verb needs it: programs that link it take 0.4 s to start.
#pragma once

#include "graph/engine.h"
#include "tasks/train/trainer.h"

namespace crumb::cli {

/// Opens libcrumb_engine.so: the file that CRUMB_ENGINE names, else beside the program, in ../lib/crumb, or where
/// the system looks. Once. Throws Error that says where it was looked for, or why it cannot be opened.
graph::Engine& open_engine();

/// The same library's trainer.
tasks::Trainer& open_trainer();

}  // namespace crumb::cli
