// crumb-bench: how fast, as ratios measured in the same run.
//
//   crumb-bench quantize   --spec int4:group=128 --shape 4096x4096 --threads 1,2 [--repeats 9] [--json]
//   crumb-bench quantize   --shapes bench/shapes/minilm.txt
//   crumb-bench dequantize, distortion (the same options)
//   crumb-bench multiply   --spec int4:group=128 --shape 1536x384 --batch 1,64 --threads 1,2
//                          [--layout rows|tiles] [--fast] [--cold] [--repeats 9] [--json]
//   crumb-bench checkpoint --input MODEL --spec int4:group=128 --threads 2 [--repeats 3] [--json]
//   crumb-bench convolution [--layers 96x112x112:96x3x3:group=96:stride=2,...] --threads 1,2 [--repeats 9]
//                          [--json]
//   crumb-bench graph      [--input ../shared/onnx|FILE.onnx [--shape NAME=1x3x224x224]] --threads 1,2
//                          [--python PYTHON] [--repeats 9] [--json]
//   crumb-bench runtime    (the same options)
//   crumb-bench ptq        [--spec int4:group=128] --shape 4096x4096 --threads 1,2 [--repeats 3] [--json]
//   crumb-bench qat        [--spec int4:channel] --threads 1,2 [--repeats 9] [--json]
//   crumb-bench lm         --input MODEL [--specs int4:group=32,...] [--layout rows|tiles] [--llama FOLDER]
//                          --threads 1,2 [--repeats 3] [--json]
//
// Best and median of the repeats, taken in turns; the machine's other work is noise, so look at the ratios.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>

#include "base/error.h"
#include "bench/bench.h"

namespace {

using crumb::bench::Options;

CLI::App* add(CLI::App& app, const char* name, const char* summary, void (*work)(const Options&),
              const std::shared_ptr<Options>& options) {
  CLI::App* verb = app.add_subcommand(name, summary);
  verb->add_option("--spec", options->spec, "The quantizer");
  verb->add_option("--repeats", options->repeats, "Timed runs of each")->check(CLI::Range(1, 1000));
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options, work] { work(*options); });
  return verb;
}

void add_layout(CLI::App* verb, Options& options) {
  verb->add_option("--layout", options.layout, "How codes lie: rows or tiles (rows)")
      ->check(CLI::IsMember({"rows", "tiles"}));
}

void add_threads(CLI::App* verb, Options& options) {
  verb->add_option("--threads", options.threads, "Numbers of threads, as in 1,2")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
}

CLI::App* add_shaped(CLI::App& app, const char* name, const char* summary, void (*work)(const Options&),
                     const std::shared_ptr<Options>& options) {
  CLI::App* verb = add(app, name, summary, work, options);
  CLI::Option* shape = verb->add_option("--shape", options->shape, "The tensor, as in 4096x4096");
  verb->add_option("--shapes", options->shapes, "A file of lines 'name RxC'")->excludes(shape);
  return verb;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace crumb::bench;
  CLI::App app("Crumb's benchmarks: ratios measured in one run", "crumb-bench");
  app.require_subcommand(1);
  const auto options = std::make_shared<Options>();
  add_threads(add_shaped(app, "quantize", "Quantizing, against copying the same bytes and against LibTorch",
                         quantize_bench, options),
              *options);
  add_threads(add_shaped(app, "dequantize", "Dequantizing, against copying and against LibTorch",
                         dequantize_bench, options),
              *options);
  add_threads(add_shaped(app, "distortion", "The error sums of a whole-file run, against copying",
                         distortion_bench, options),
              *options);
  CLI::App* multiply =
      add_shaped(app, "multiply", "A packed matrix product against the float one and the machine's limits",
                 multiply_bench, options);
  add_threads(multiply, *options);
  multiply->add_option("--batch", options->batch, "Numbers of vectors, as in 1,64")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  multiply->add_flag("--cold", options->cold,
                     "Matrices that no cache has: 1 GB of copies, one after the other");
  multiply->add_flag("--fast", options->fast, "By the promise fast");
  add_layout(multiply, *options);
  CLI::App* checkpoint =
      add(app, "checkpoint", "crumb quantize of a checkpoint, against reading and copying it",
          checkpoint_bench, options);
  add_threads(checkpoint, *options);
  checkpoint->add_option("--input", options->input, "The checkpoint, a file or a folder")->required();
  checkpoint->add_option("--crumb", options->crumb, "The crumb command (that beside crumb-bench)");
  CLI::App* convolution = add(
      app, "convolution", "Layers of float convolutions, against writing their windows and against copying",
      convolution_bench, options);
  convolution->remove_option(convolution->get_option("--spec"));
  add_threads(convolution, *options);
  convolution
      ->add_option("--layers", options->layers,
                   "As in 96x112x112:96x3x3:group=96:stride=2 (some of networks)")
      ->delimiter(',');
  CLI::App* graph =
      add(app, "graph", "Executing graphs, against qonnx's executor, onnxruntime and plain LibTorch",
          graph_bench, options);
  CLI::App* runtime =
      add(app, "runtime",
          "Executing graphs on the runtime, against qonnx's executor, onnxruntime and LibTorch's engine",
          runtime_bench, options);
  for (CLI::App* verb : {graph, runtime}) {
    add_threads(verb, *options);
    verb->add_option("--input", options->input, "An ONNX file or a folder of them (../shared/onnx)");
    verb->add_option("--shape", options->input_shapes,
                     "NAME=1x3x224x224, the shape of an input whose sizes are open (1), once for each");
    verb->add_option("--python", options->python, "The Python that has qonnx and onnxruntime");
  }
  runtime->add_flag("--made", options->made,
                    "Networks with random weights instead, as floats and W8A8 and W4A4");
  runtime->add_option("--crumb", options->crumb,
                      "The crumb command that quantizes them (that beside crumb-bench)");
  CLI::App* ptq = add_shaped(
      app, "ptq", "Rounding a matrix by GPTQ, against the same in LibTorch's operators", ptq_bench, options);
  add_threads(ptq, *options);
  ptq->preparse_callback([options](std::size_t) { options->repeats = 3; });
  CLI::App* qat =
      add(app, "qat", "Training steps with hooks against float ones, fused against composed operators",
          qat_bench, options);
  add_threads(qat, *options);
  qat->preparse_callback([options](std::size_t) { options->spec = "int4:channel"; });
  CLI::App* lm =
      add(app, "lm", "Answers of language models, against transformers and llama.cpp (bench/lm.py)", lm_bench,
          options);
  lm->remove_option(lm->get_option("--spec"));
  add_threads(lm, *options);
  lm->add_option("--input", options->input, "A Hugging Face folder or a GGUF file")
      ->required()
      ->check(CLI::ExistingPath);
  lm->add_option("--specs", options->specs, "The quantizers")->delimiter(',');
  add_layout(lm, *options);
  lm->add_option("--llama", options->llama, "The folder of llama.cpp's llama-bench");
  lm->add_option("--python", options->python, "The Python that has transformers");
  lm->add_option("--crumb", options->crumb, "The crumb command (that beside crumb-bench)");
  lm->preparse_callback([options](std::size_t) { options->repeats = 3; });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const crumb::Error& error) {
    std::fprintf(stderr, "crumb-bench: %s\n", error.what());
    return error.kind() == crumb::ErrorKind::kUsage ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crumb-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
