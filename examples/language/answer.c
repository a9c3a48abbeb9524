/* What a language model answers, as it comes.
 *
 *   crumb quantize SmolLM2-135M-Instruct.gguf -o smollm2.crumb --weights int4:group=32
 *   cc -std=c11 examples/language/answer.c -I runtime -L build -lcrumb -Wl,-rpath,$PWD/build -o answer
 *   ./answer smollm2.crumb '[{"role": "user", "content": "What is the capital of France?"}]' 64
 */
#include <crumb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, crumb_error());
  return 1;
}

static int show(const char* text, size_t bytes, void* user) {
  (void)user;
  fwrite(text, 1, bytes, stdout);
  return fflush(stdout); /* nobody reads any more: the answer ends */
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: answer MODEL.crumb MESSAGES.json-text [TOKENS]\n");
    return 2;
  }
  crumb_language* language = NULL;
  if (crumb_language_open(arguments[1], &language)) return failed("cannot open the model");

  /* The conversation as the model's chat template has it, and its ids: sizes first, then what they are for. */
  const char* const messages = arguments[2];
  size_t bytes = 0, ids_count = 0;
  if (crumb_render_chat(language, messages, strlen(messages), NULL, 0, &bytes))
    return failed("cannot read the messages");
  char* const text = malloc(bytes + 1);
  if (!text || crumb_render_chat(language, messages, strlen(messages), text, bytes, &bytes))
    return failed("messages");
  if (crumb_encode(language, text, bytes, 0, NULL, 0, &ids_count))
    return failed("cannot cut the text into tokens");
  int32_t* const ids = malloc(ids_count * sizeof(int32_t) + 1);
  if (!ids || crumb_encode(language, text, bytes, 0, ids, ids_count, &ids_count)) return failed("tokens");

  crumb_decoding* decoding = NULL;
  if (crumb_decoding_open(language, NULL, 0, &decoding)) return failed("cannot begin");
  const crumb_generation how = {.tokens = count > 3 ? strtoul(arguments[3], NULL, 10) : 0};
  crumb_answer answer;
  if (crumb_generate(decoding, ids, ids_count, &how, show, NULL, &answer)) return failed("cannot answer");
  printf("\n");
  fprintf(stderr, "%zu tokens of prompt in %.2f s, %zu of answer in %.2f s\n", answer.prompt_tokens,
          answer.prompt_seconds, answer.count, answer.answer_seconds);

  free(ids);
  free(text);
  crumb_decoding_close(decoding);
  crumb_language_close(language);
  return 0;
}
