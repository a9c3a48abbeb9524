// The shared library that the crumb command opens when a verb executes a graph or trains (cli/open_engine.h).
#include "libtorch/engine.h"
#include "qat/optimize/squared_gradients.h"
#include "tasks/language/language_trainer.h"
#include "tasks/train/trainer.h"

#define CRUMB_SEEN extern "C" __attribute__((visibility("default")))

CRUMB_SEEN const char* crumb_engine_interface() { return CRUMB_ENGINE_INTERFACE; }
CRUMB_SEEN const char* crumb_engine_libtorch() { return CRUMB_LIBTORCH_VERSION; }
CRUMB_SEEN crumb::graph::Engine* crumb_engine() { return &crumb::libtorch::engine(); }
CRUMB_SEEN crumb::analysis::RegisterEngine* crumb_register_engine() {
  return &crumb::libtorch::register_engine();
}
CRUMB_SEEN crumb::graph::EngineDevice* crumb_engine_device() { return &crumb::libtorch::engine_device(); }
CRUMB_SEEN crumb::graph::TorchScriptReader* crumb_torchscript_reader() {
  return &crumb::libtorch::torchscript_reader();
}
CRUMB_SEEN crumb::graph::GradientEngine* crumb_gradient_engine() { return &crumb::qat::gradient_engine(); }
CRUMB_SEEN crumb::tasks::Trainer* crumb_trainer() { return &crumb::tasks::trainer(); }
CRUMB_SEEN crumb::tasks::LanguageTrainer* crumb_language_trainer() {
  return &crumb::tasks::language_trainer();
}
