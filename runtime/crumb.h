/* Runs networks from packed files (.crumb): the C interface of Crumb's runtime.
 *
 *   crumb_model* model;            a network: never changes, serves any number of sessions and threads
 *   crumb_session* session;        one caller's runs of it: one thread at a time, crumb_cancel() from any
 *
 * A call that can fail returns a crumb_status; crumb_error() then says in a sentence what was found, what was
 * expected and where, to the thread that made the call. What a call would have written is left alone where it
 * fails. No call prints, ends the process or throws. Files may come from anywhere: damage is an error, and a
 * run ends at the session's limits.
 *
 * Numbers are `exact`: a model's outputs have the same bits on every processor, with any number of threads,
 * in any batch (docs/runtime.md).
 */
#ifndef CRUMB_H
#define CRUMB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CRUMB_API
#define CRUMB_API
#endif

/* C's names, not those of the C++ around it. NOLINTBEGIN(readability-identifier-naming) */
typedef enum crumb_status {
  CRUMB_OK = 0,
  CRUMB_ERROR_ARGUMENT = 1,    /* the call itself is wrong: a null pointer, an index that is not there */
  CRUMB_ERROR_FILE = 2,        /* the file cannot be read, is damaged, or is none that holds a network */
  CRUMB_ERROR_UNSUPPORTED = 3, /* the network has operators that the runtime has not; all of them are named */
  CRUMB_ERROR_INPUT = 4,       /* an input's type or shape is none that the network takes */
  CRUMB_ERROR_RUN = 5,         /* an operator refuses what it is given */
  CRUMB_ERROR_LIMIT = 6,       /* the session's limit of memory or work */
  CRUMB_ERROR_CANCELLED = 7,
  CRUMB_ERROR_MEMORY = 8 /* the machine has no more memory */
} crumb_status;

/* Element types, by ONNX's numbers (TensorProto.DataType). bool takes a byte; int4 and below are packed,
 * lowest bits first. */
typedef int32_t crumb_type;
enum {
  CRUMB_UNKNOWN = 0,
  CRUMB_FLOAT32 = 1,
  CRUMB_UINT8 = 2,
  CRUMB_INT8 = 3,
  CRUMB_UINT16 = 4,
  CRUMB_INT16 = 5,
  CRUMB_INT32 = 6,
  CRUMB_INT64 = 7,
  CRUMB_BOOL = 9,
  CRUMB_FLOAT16 = 10,
  CRUMB_FLOAT64 = 11,
  CRUMB_UINT32 = 12,
  CRUMB_UINT64 = 13,
  CRUMB_BFLOAT16 = 16,
  CRUMB_UINT4 = 21,
  CRUMB_INT4 = 22,
  CRUMB_UINT2 = 25,
  CRUMB_INT2 = 26
};

typedef struct crumb_model crumb_model;
typedef struct crumb_session crumb_session;

/* MAJOR.MINOR.PATCH of the library, as in "0.2.0". */
CRUMB_API const char* crumb_version(void);

/* Why this thread's last call failed; "" before the first. Stays until the thread's next call that can
   fail. */
CRUMB_API const char* crumb_error(void);

/* Opens a network. A file is mapped: it may be removed or replaced after the call, but its bytes must not
   change while the model or a session of it lives. Weights are looked at when they are first used, so a
   damaged one is an error of the run that uses it. Bytes in memory are copied, and checked whole. */
CRUMB_API crumb_status crumb_open(const char* path, crumb_model** model);
CRUMB_API crumb_status crumb_open_memory(const void* bytes, size_t size, crumb_model** model);

/* Sessions of the model may live on. Null is nothing. */
CRUMB_API void crumb_close(crumb_model* model);

/* What the network takes or gives. */
typedef struct crumb_value {
  const char* name;
  crumb_type type;            /* CRUMB_UNKNOWN where the file does not say */
  int64_t rank;               /* -1 where the file does not say */
  const int64_t* shape;       /* -1 for a size that is open */
  const char* const* symbols; /* names of open sizes; "" where there is none. Sizes of one name are equal. */
} crumb_value;

CRUMB_API size_t crumb_input_count(const crumb_model* model);
CRUMB_API size_t crumb_output_count(const crumb_model* model);
/* What `value` points to lives as long as the model. */
CRUMB_API crumb_status crumb_input(const crumb_model* model, size_t index, crumb_value* value);
CRUMB_API crumb_status crumb_output(const crumb_model* model, size_t index, crumb_value* value);

typedef struct crumb_options {
  int threads;     /* 0: those that the machine has */
  uint64_t memory; /* bytes of values at a time; 0: 16 GiB */
  uint64_t work;   /* elements made and products added up in a run; 0: 2^46 */
  int promise;     /* CRUMB_EXACT or CRUMB_FAST */
} crumb_options;

enum {
  CRUMB_EXACT = 0, /* sums of float32 in one order: the numbers that the network says */
  CRUMB_FAST =
      1 /* what a matrix of packed weights takes in becomes bytes, one scale a row: several times faster, and
                      off by at most half a step of that scale for each term */
};

/* `options` may be null, which is all zeros. */
CRUMB_API crumb_status crumb_session_open(const crumb_model* model, const crumb_options* options,
                                          crumb_session** session);
/* Null is nothing. */
CRUMB_API void crumb_session_close(crumb_session* session);

/* Elements in row-major order, little-endian, without gaps. */
typedef struct crumb_tensor {
  crumb_type type;
  size_t rank;
  const int64_t* shape;
  const void* data;
  size_t bytes; /* of data */
} crumb_tensor;

/* Inputs in the order of crumb_input(), without those that the session's cache holds; they are copied. */
CRUMB_API crumb_status crumb_run(crumb_session* session, const crumb_tensor* inputs, size_t count);

/* An output of the last run, by its index among all outputs; the run must have succeeded, and the cache must
 * not hold the output. It lives until the session's next run or end. */
CRUMB_API crumb_status crumb_result(const crumb_session* session, size_t index, crumb_tensor* output);

/* Values of the last run that were NaN or infinite and came to a quantizer, which has no codes for such: how
 * many at the first quantizer that met any, and its name ("" where there are none; `node` may be null), which
 * lives until the session's next run or end. Where integers follow, NaN counts as the least code and an
 * infinity as one at the end (docs/runtime.md). */
CRUMB_API uint64_t crumb_not_finite(crumb_session* session, const char** node);

/* The run that goes on now ends with CRUMB_ERROR_CANCELLED as soon as the operator that it is at is done.
 * From any thread; nothing where no run goes on. */
CRUMB_API void crumb_cancel(crumb_session* session);

/* Bytes that the values of the last run took at most at a time, and its work, as crumb_options count them. */
CRUMB_API uint64_t crumb_peak_memory(const crumb_session* session);
CRUMB_API uint64_t crumb_work(const crumb_session* session);

/* A cache: values that live from run to run, as the keys and values of a language model do. A tie says that
 * output `present` of a run is input `past` of the next; neither is given or handed out then. Before the
 * first run the past has no positions. Where past and present are those of an Attention node, and nobody else
 * reads their elements, a run writes its own positions alone, in memory that grows by doubling; otherwise
 * what a run makes is kept as it is.
 *
 * Steps have the bits of the whole: a sequence that comes at once, or in any steps, gives the same numbers
 * (docs/runtime.md). A run that fails leaves the positions before it. The cache's memory counts for
 * crumb_options.memory. */

/* Ties what the network shows: past and present of its Attention nodes, and inputs and outputs of one type
 * and rank whose names are alike but for past (past_key_values) and present (present_key_values) at their
 * beginning. `ties` says how many that are, and may be null. A cache that the session has is replaced. No run
 * may make it longer than `most` positions; 0: as memory allows. */
CRUMB_API crumb_status crumb_cache_open(crumb_session* session, uint64_t most, size_t* ties);

/* One tie more, along axis 2 of values of four axes, or along another; what the cache has is forgotten. */
CRUMB_API crumb_status crumb_cache_tie(crumb_session* session, const char* past, const char* present,
                                       int64_t axis);

/* Whether the cache holds input or output `index` of the network. */
CRUMB_API int crumb_cache_holds_input(const crumb_session* session, size_t index);
CRUMB_API int crumb_cache_holds_output(const crumb_session* session, size_t index);

/* Positions that the cache has, and bytes of memory: keys and values of floats take whole blocks of
   sixteen positions. */
CRUMB_API uint64_t crumb_cache_length(const crumb_session* session);
CRUMB_API uint64_t crumb_cache_memory(const crumb_session* session);

/* Keeps the first `length` positions. */
CRUMB_API crumb_status crumb_cache_truncate(crumb_session* session, uint64_t length);
/* Keeps none; another batch may follow. */
CRUMB_API crumb_status crumb_cache_reset(crumb_session* session);

/* Everything that the cache holds, for crumb_cache_restore() of a session with the same ties and promise, of
 * the same network: the checksums of its weights are compared. The bytes live until the session's next
 * crumb_cache_save() or end. */
CRUMB_API crumb_status crumb_cache_save(crumb_session* session, const void** bytes, size_t* size);
/* CRUMB_ERROR_INPUT where the bytes are damaged or of another network; the cache is as before then. */
CRUMB_API crumb_status crumb_cache_restore(crumb_session* session, const void* bytes, size_t size);

/* --- Language models ---------------------------------------------------------------------------------------
 *
 *   crumb_language* language;      a decoder with its tokenizer and chat template: what `crumb quantize` makes
 *                                  of one. Never changes, serves any number of decodings and threads
 *   crumb_decoding* decoding;      one sequence of tokens, with keys and values of its positions
 *
 * Texts are UTF-8, of so many bytes, and need no 0 at their end; what is ill-formed counts as U+FFFD. */
typedef struct crumb_language crumb_language;
typedef struct crumb_decoding crumb_decoding;

/* As crumb_open(). CRUMB_ERROR_FILE where the file is no language model's, too. */
CRUMB_API crumb_status crumb_language_open(const char* path, crumb_language** language);
/* Decodings of it may live on. Null is nothing. */
CRUMB_API void crumb_language_close(crumb_language* language);

CRUMB_API size_t crumb_vocabulary(const crumb_language* language); /* ids are below */
CRUMB_API size_t crumb_positions(const crumb_language* language);  /* the longest sequence */

/* Text to ids and back, and a conversation as the model's chat template has it: a JSON list of {"role",
 * "content"}, with the beginning of an answer behind it. What is made, `count` ids or bytes, is written where
 * there is room for all of it (capacity); otherwise nothing is, and the call succeeds: a first one with null
 * and 0 tells the size. special: with the tokens that the tokenizer puts around a text (encode), which a
 * template has written itself; with special tokens as they are spelled (decode). */
CRUMB_API crumb_status crumb_encode(const crumb_language* language, const char* text, size_t bytes,
                                    int special, int32_t* ids, size_t capacity, size_t* count);
CRUMB_API crumb_status crumb_decode(const crumb_language* language, const int32_t* ids, size_t id_count,
                                    int special, char* text, size_t capacity, size_t* count);
CRUMB_API crumb_status crumb_render_chat(const crumb_language* language, const char* messages, size_t bytes,
                                         char* text, size_t capacity, size_t* count);

/* `options` may be null. context: most tokens of the sequence; 0: crumb_positions(). */
CRUMB_API crumb_status crumb_decoding_open(const crumb_language* language, const crumb_options* options,
                                           uint64_t context, crumb_decoding** decoding);
CRUMB_API void crumb_decoding_close(crumb_decoding* decoding);

/* How an answer is chosen; all zeros is the most probable token each time, 128 of them at most. The order of
 * what is applied is transformers': repeat_penalty, temperature, top_k, top_p, min_p. */
typedef struct crumb_generation {
  size_t tokens;         /* 0: 128 */
  double temperature;    /* 0: nothing is drawn */
  size_t top_k;          /* 0: all */
  double top_p;          /* 0: 1, which is all */
  double min_p;          /* 0: all */
  double repeat_penalty; /* 0: 1, which is none */
  uint64_t seed;
  const char* const* stops; /* texts that end an answer, each with a 0 at its end */
  size_t stop_count;
  int shift; /* not 0: a full context loses its oldest half; otherwise it is CRUMB_ERROR_RUN */
} crumb_generation;

enum { CRUMB_STOPPED_END = 0, CRUMB_STOPPED_STOP = 1, CRUMB_STOPPED_TOKENS = 2, CRUMB_STOPPED_INTERRUPT = 3 };

typedef struct crumb_answer {
  const char* text;
  size_t bytes;
  const int32_t* ids; /* the token that ends an answer is none of them */
  size_t count;
  int stopped_by;
  size_t prompt_tokens; /* that were run: those before were there */
  double prompt_seconds, answer_seconds;
} crumb_answer;

/* Called with text as it comes, whole characters; not 0 ends the answer, as crumb_decoding_cancel() does. */
typedef int (*crumb_show)(const char* text, size_t bytes, void* user);

/* Answers `prompt`, which is everything so far: of what the decoding has, tokens that both begin with are not
 * run again. `generation` and `show` may be null. The answer lives until the decoding's next call or end. An
 * answer that is ended before its first token is CRUMB_ERROR_CANCELLED; a sequence that does not fit,
 * CRUMB_ERROR_RUN. */
CRUMB_API crumb_status crumb_generate(crumb_decoding* decoding, const int32_t* prompt, size_t count,
                                      const crumb_generation* generation, crumb_show show, void* user,
                                      crumb_answer* answer);

/* As crumb_not_finite(), of the last crumb_generate() or crumb_feed(). */
CRUMB_API uint64_t crumb_decoding_not_finite(crumb_decoding* decoding, const char** node);

/* From any thread. */
CRUMB_API void crumb_decoding_cancel(crumb_decoding* decoding);

/* Puts tokens behind those that are there, and gives the logits of the last `kept` of them, [kept,
 * crumb_vocabulary()], which live until the decoding's next call or end. 1 <= kept <= count. */
CRUMB_API crumb_status crumb_feed(crumb_decoding* decoding, const int32_t* ids, size_t count, size_t kept,
                                  const float** logits);
CRUMB_API uint64_t crumb_decoding_length(const crumb_decoding* decoding);
CRUMB_API crumb_status crumb_decoding_truncate(crumb_decoding* decoding,
                                               uint64_t length); /* keeps the first */

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* CRUMB_H */
