#include "tasks/language/teachers/kept_teacher.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/language/text/checksums.h"
#include "tasks/language/text/decoder_inputs.h"
#include "tasks/language/text/language_loss.h"

namespace crumb::tasks {
namespace {

namespace fs = std::filesystem;

constexpr double kLeastShare = 1e-9;  ///< of the remaining probability: float32 does not resolve less

std::string name_of_sequence(std::int64_t sequence) {
  std::string digits = std::to_string(sequence);
  return std::string(9 - std::min<std::size_t>(9, digits.size()), '0') + digits;
}

/// Returns facts of the float network only where it is there: else the file replaces it.
std::map<std::string, std::string> facts_of(const LanguageRequest& request) {
  std::map<std::string, std::string> facts{{"text", std::to_string(checksum_of(request.samples.text))},
                                           {"first", std::to_string(request.samples.first.value_or(-1))},
                                           {"length", std::to_string(request.samples.length)},
                                           {"temperature", std::to_string(request.supervision.temperature)}};
  if (request.supervision.has_floats) facts["network"] = std::to_string(checksum_of_floats(request.network));
  return facts;
}

/// Returns the predictions for a sequence, [length, 2, top].
at::Tensor predicted(const FloatDecoder& network, const LanguageRequest& request, const LanguageText& text) {
  const torch::NoGradGuard no_gradients;
  const libtorch::CutPass pass = network.pass(decoder_tensors(request.network, text, 1, network.device()));
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < request.samples.length; begin += kPositionsAtOnce) {
    const std::int64_t count = std::min(kPositionsAtOnce, request.samples.length - begin);
    const at::Tensor logits = pass.behind(pass.states().narrow(1, begin, count)).squeeze(0);
    const std::int64_t top = std::min<std::int64_t>(request.supervision.teacher.top, logits.size(-1));
    const auto [values, tokens] = (logits / request.supervision.temperature).log_softmax(-1).topk(top, -1);
    parts.push_back(at::stack({values, tokens.to(at::kFloat)}, 1));
  }
  return at::cat(parts).to(at::kCPU).contiguous();
}

}  // namespace

KeptTeacher::KeptTeacher(const LanguageRequest& request, const Sequences& sequences,
                         const std::vector<std::int64_t>& wanted, const FloatDecoder* network,
                         const std::function<void(std::int64_t, std::int64_t)>& done)
    : length_(request.samples.length), temperature_(request.supervision.temperature) {
  const fs::path& path = request.supervision.teacher.file;
  const std::map<std::string, std::string> facts = facts_of(request);
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (!network)
      throw usage_error(
          "there is no file " + quote_text(path.string()) +
          " of what the float network predicts, and no float network that makes it: give --baseline");
    std::vector<TensorDescription> tensors;
    const auto top = static_cast<std::uint64_t>(
        std::min<std::int64_t>(request.supervision.teacher.top, network->vocabulary()));
    for (const std::int64_t sequence : wanted)
      tensors.push_back({name_of_sequence(sequence),
                         DType::kF32,
                         {static_cast<std::uint64_t>(request.samples.length), 2, top}});
    SafetensorsWriter writer(path, std::move(tensors), facts);
    std::int64_t made = 0;
    for (const std::int64_t sequence : wanted) {
      check_interrupt();
      LanguageText text;
      sequences.append(sequence, text);
      const at::Tensor values = predicted(*network, request, text);
      writer.write(name_of_sequence(sequence),
                   {reinterpret_cast<const std::byte*>(values.const_data_ptr<float>()), values.nbytes()});
      if (done) done(++made, static_cast<std::int64_t>(wanted.size()));
    }
    writer.commit();
  }
  open(path, facts, wanted);
}

void KeptTeacher::open(const fs::path& path, const std::map<std::string, std::string>& facts,
                       const std::vector<std::int64_t>& wanted) {
  const std::string name = quote_text(path.string());
  file_.emplace(MappedFile::open(path).take());
  const SafetensorsHeader header = parse_safetensors(file_->bytes()).take(name);
  for (const auto& [key, value] : facts) {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end())
      throw usage_error(name + " holds no predictions of a float network: its metadata have no " +
                        quote_text(key));
    if (found->second != value)
      throw usage_error(name + " holds predictions of another kind: its " + key + " is " + found->second +
                        ", this run's " + value + "; give another --teacher-logits");
  }
  for (const SafetensorsTensor& tensor : header.tensors) {
    const auto& shape = tensor.shape;
    if (tensor.dtype != DType::kF32 || shape.size() != 3 || shape[0] != static_cast<std::uint64_t>(length_) ||
        shape[1] != 2 || shape[2] == 0 || (top_ > 0 && shape[2] != static_cast<std::uint64_t>(top_)))
      throw Error(name + ": tensor " + quote_text(tensor.name) + " has shape " + shape_text(shape) +
                  ", expected F32 [" + std::to_string(length_) + ", 2, top]");
    top_ = static_cast<std::int64_t>(shape[2]);
    offsets_[std::strtoll(tensor.name.c_str(), nullptr, 10)] = tensor.offset;
  }
  for (const std::int64_t sequence : wanted)
    if (!offsets_.contains(sequence))
      throw usage_error(
          name + " lacks sequence " + std::to_string(sequence) +
          " of the text: it was made for fewer steps or another seed; give another --teacher-logits");
}

at::Tensor KeptTeacher::divergence(const at::Tensor& logits, const std::vector<std::int64_t>& sequences,
                                   const at::Tensor& positions) const {
  const std::int64_t count = positions.numel(), vocabulary = logits.size(-1);
  const at::Tensor from = positions.to(at::kCPU);
  at::Tensor kept = at::empty({count, 2, top_}, at::kFloat);
  const std::size_t bytes = static_cast<std::size_t>(2 * top_) * sizeof(float);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = from.const_data_ptr<std::int64_t>()[i];
    const std::uint64_t offset = offsets_.at(sequences.at(static_cast<std::size_t>(position / length_))) +
                                 static_cast<std::uint64_t>(position % length_) * bytes;
    std::memcpy(kept.data_ptr<float>() + i * 2 * top_, file_->bytes().data() + offset, bytes);
  }
  const at::Tensor numbers = kept.select(1, 1).to(at::kLong);
  if (numbers.min().item<std::int64_t>() < 0 || numbers.max().item<std::int64_t>() >= vocabulary)
    throw Error("the predictions that were kept name a token beyond the vocabulary of " +
                std::to_string(vocabulary));
  const at::Tensor log_p = kept.select(1, 0).to(logits.device()), tokens = numbers.to(logits.device());
  const at::Tensor log_q = (logits.squeeze(0) / temperature_).log_softmax(-1).gather(-1, tokens);
  at::Tensor each = (log_p.exp() * (log_p - log_q)).sum(-1);
  if (top_ < vocabulary) {
    const at::Tensor p = (1 - log_p.exp().sum(-1)).clamp_min(kLeastShare),
                     q = (1 - log_q.exp().sum(-1)).clamp_min(kLeastShare);
    each = each + p * (p.log() - q.log());
  }
  return each.sum() * (temperature_ * temperature_);
}

}  // namespace crumb::tasks
