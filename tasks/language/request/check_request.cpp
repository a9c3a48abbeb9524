#include "tasks/language/request/check_request.h"

#include <string>

#include "libtorch/device.h"
#include "tasks/language/text/sequences.h"

namespace crumb::tasks {
namespace {

/// Throws usage Error where the device does not support these products.
void check_products(const LanguageRequest& request) {
  const bool is_cpu = libtorch::device_named(request.compute.device).is_cpu();
  if (request.compute.products == (is_cpu ? Products::kTf32 : Products::kBfloat16))
    throw usage_error("products of " + std::string(name_of(request.compute.products)) +
                      " are not for the device " + quote_text(request.compute.device) + ": expected f32 or " +
                      (is_cpu ? "bf16" : "tf32"));
}

void check_of_encoder(const LanguageRequest& request) {
  const auto refuse = [](bool is_asked, const std::string& what) {
    if (is_asked) throw usage_error(what + " is for decoders, found a sentence encoder");
  };
  refuse(request.supervision.loss == LanguageLoss::kDivergence ||
             request.supervision.loss == LanguageLoss::kNextToken,
         "the loss " + std::string(name_of(request.supervision.loss)));
  refuse(request.supervision.temperature != 1, "a temperature");
  refuse(!request.supervision.teacher.file.empty(), "a file of what the float network predicts");
  refuse(request.block_wise.passes > 0, "training layer by layer");
  refuse(request.steps.recomputes, "computing layers again");
  refuse(request.recovery && request.recovery->start == AdapterStart::kWhitened, "the start 'whitened'");
}

void check_of_decoder(const LanguageRequest& request) {
  const auto needs_predictions = [&](bool is_asked, const std::string& what) {
    if (is_asked && request.supervision.loss != LanguageLoss::kDivergence)
      throw usage_error(what + " is for the loss kl, found " +
                        std::string(name_of(request.supervision.loss)));
  };
  needs_predictions(!request.supervision.teacher.file.empty(), "a file of what the float network predicts");
  needs_predictions(request.supervision.temperature != 1, "a temperature");
  if (request.supervision.loss == LanguageLoss::kCosine)
    throw usage_error("the loss cosine is for sentence encoders, found a decoder");
  if (!request.samples.text.empty())  // a text that is to be sampled does not exist yet
    const Sequences trained(request.samples.text, request.samples.first, request.samples.length,
                            "the text to train by");
  if (!request.samples.valid.empty())
    const Sequences measured(request.samples.valid, request.samples.first, request.samples.length,
                             "the text to measure by");
  if (request.block_wise.passes == 0) return;
  if (request.recipe.activations && !request.recipe.activations->is_dynamic())
    throw usage_error(
        "layers are trained one by one with activations in floats or with scales for tokens, found " +
        request.recipe.activations->to_string());
  if (request.block_wise.scales_alone && request.block_wise.signs)
    throw usage_error(
        "the stage block_wise learns scales alone, or how weights are rounded (signs), found both on");
}

}  // namespace

void check_request(const LanguageRequest& request) {
  check_products(request);
  request.samples.lines.empty() ? check_of_decoder(request) : check_of_encoder(request);
}

}  // namespace crumb::tasks
