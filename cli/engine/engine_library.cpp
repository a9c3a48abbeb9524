// The shared library that the crumb command opens when a verb executes a graph or trains (cli/open_engine.h).
#include "libtorch/engine.h"
#include "tasks/train/trainer.h"

extern "C" __attribute__((visibility("default"))) const char* crumb_engine_interface() {
  return CRUMB_ENGINE_INTERFACE;
}

extern "C" __attribute__((visibility("default"))) crumb::graph::Engine* crumb_engine() {
  return &crumb::libtorch::engine();
}

extern "C" __attribute__((visibility("default"))) crumb::tasks::Trainer* crumb_trainer() {
  return &crumb::tasks::trainer();
}
