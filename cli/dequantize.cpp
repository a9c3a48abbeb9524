// crumb dequantize: a packed file becomes float safetensors again.
#include <iostream>

#include "cli/output.h"
#include "cli/verb.h"
#include "formats/io/interrupt.h"
#include "formats/io/text.h"
#include "formats/safetensors/safetensors.h"
#include "quant/checkpoint_run.h"
#include "quant/tensor_source.h"

namespace crumb::cli {
namespace {

struct Options {
  std::string input, output;
  int threads = 0;
};

void dequantize_verb(const Options& options) {
  const TensorSource source = TensorSource::open(options.input);
  if (!source.crumb()) {
    throw Error(quote_text(options.input) + " is no packed file: found a " + std::string(source.kind()) +
                ", expected a .crumb file");
  }
  refuse_overwriting_inputs({options.input}, options.output);
  std::vector<TensorDescription> tensors;
  for (const SourceTensor& tensor : source.tensors()) {
    tensors.push_back({tensor.name, is_floating(tensor.dtype) ? DType::kF32 : tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer(options.output, std::move(tensors), {{"format", "pt"}});
  {
    Progress progress("dequantizing", "tensors", writer.tensors().size(), 0);
    size_t done = 0;
    for (const TensorDescription& description : writer.tensors()) {
      check_interrupt();
      const SourceTensor& tensor = *source.find(description.name);
      if (is_floating(tensor.dtype)) {
        const std::vector<float> values = source.floats(tensor, options.threads);
        writer.write(tensor.name, std::as_bytes(std::span(values)));
      } else {
        writer.write(tensor.name, source.raw(tensor));
      }
      progress.update(++done, 0);
    }
    writer.commit();
  }
  std::cout << options.output << ": " << writer.tensors().size() << " tensors\n";
}

}  // namespace

void add_dequantize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("dequantize", "Turn a packed file into float safetensors");
  verb->add_option("input", options->input, "The packed file")->required();
  verb->add_option("-o,--output", options->output, "The safetensors file to write")->required();
  verb->add_option("--threads", options->threads, "Threads (those the machine has)")
      ->check(CLI::Range(0, 1024));
  verb->footer(
      "Names are the original ones; floating tensors become float32, others keep their type.\n\n"
      "Example:\n  crumb dequantize minilm.crumb -o minilm.safetensors");
  verb->callback([options] { dequantize_verb(*options); });
}

}  // namespace crumb::cli
