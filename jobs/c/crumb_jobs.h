/* What the crumb command does, for programs in C and languages that call C: libcrumb_jobs.so.
 *
 * A call that fails returns a status; crumb_jobs_error() then tells the thread that made the call, in a
 * sentence, what was found, what was expected and where. No call prints, ends the process or throws. Where a
 * network needs LibTorch, the call opens libcrumb_engine.so: the file that CRUMB_ENGINE names, else the one
 * next to this library or in crumb/ next to it, else where the system looks.
 */
#ifndef CRUMB_JOBS_H
#define CRUMB_JOBS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CRUMB_JOBS_API
#define CRUMB_JOBS_API
#endif

/* C's names, not those of the C++ around it. NOLINTBEGIN(readability-identifier-naming) */
typedef enum crumb_jobs_status {
  CRUMB_JOBS_OK = 0,
  CRUMB_JOBS_ERROR = 1,     /* reading, computing or writing failed */
  CRUMB_JOBS_USAGE = 2,     /* the request contradicts itself, or does not fit the input */
  CRUMB_JOBS_CANCELLED = 3, /* the watcher ended the job */
  CRUMB_JOBS_MEMORY = 4     /* the machine has no more memory */
} crumb_jobs_status;

/* The thread that runs the job calls these; each may be NULL. Texts live until the call returns. */
typedef struct crumb_watcher {
  void (*note)(void* context, const char* text, int is_warning);
  /* "quantizing", 3 of 12 "tensors". A value that is not 0 ends the job, which then leaves no output. */
  int (*progress)(void* context, const char* what, const char* items, uint64_t done, uint64_t all);
  void* context;
} crumb_watcher;

/* Quantizes a checkpoint or an ONNX network into a file, as `crumb quantize` does: the same bytes.
 *
 * input    a Hugging Face folder, .safetensors, .gguf, .pt, .bin or .onnx
 * output   a packed file (.crumb), or for a network .onnx; an input is never replaced, and an older output
 *          stays where the job fails
 * recipe   YAML, as docs/recipes.md describes it: "weights: int4:group=32"
 * options  NULL, or a JSON object with some of: "as" ("tensors", "network"), "key", "data" (list of paths),
 *          "batch_axes" (["h0=1"]), "arguments" (of TorchScript archives: ["steps=4"]), "tokens", "pairs",
 *          "device", "to" ("qonnx", "qcdq"), "profile" ("qonnx", "finn", "hls4ml"), "opset", "shapes" ({"x":
 *          [1, 3, 32, 32]}), "threads", "memory" (bytes), "dry_run", "resume": they mean what the command's
 *          flags of these names mean
 * watcher  NULL, or the functions that get notes and progress
 * report   NULL, or where the call stores the report: JSON, as the command prints it with --json
 *          (docs/command_line.md). Free it by crumb_jobs_free(). Unchanged where the call fails.
 */
CRUMB_JOBS_API crumb_jobs_status crumb_quantize(const char* input, const char* output, const char* recipe,
                                                const char* options, const crumb_watcher* watcher,
                                                char** report);

/* Returns why this thread's last failed call failed; "" before one did. Lives until its next call. */
CRUMB_JOBS_API const char* crumb_jobs_error(void);

CRUMB_JOBS_API void crumb_jobs_free(char* report);

/* Returns the version, as crumb --version prints it. */
CRUMB_JOBS_API const char* crumb_jobs_version(void);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
