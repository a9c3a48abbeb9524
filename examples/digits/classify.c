/* Classifies handwritten digits with a packed network and libcrumb: what a product that ships one .crumb file does.
 *
 *   classify MODEL.crumb DIGITS.txt
 *
 * DIGITS.txt: lines of a label and 64 pixels from 0 to 16; lines that begin with # are skipped.
 *
 *   cc examples/digits/classify.c -I runtime -L build -lcrumb -Wl,-rpath,$PWD/build -o classify
 *   ./classify examples/digits/digits_cnn.crumb examples/digits/digits.txt
 */
#include <crumb.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIXELS = 64, CLASSES = 10 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, crumb_error());
  return 1;
}

static double now(void) {
  struct timespec time;
  timespec_get(&time, TIME_UTC);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* 1 where a digit was read, 0 at the end, -1 where there is something else. */
static int read_digit(FILE* file, int* label, float* pixels) {
  int first = fgetc(file);
  while (first == '#') {
    while (first != '\n' && first != EOF) first = fgetc(file);
    if (first == '\n') first = fgetc(file);
  }
  if (first == EOF) return 0;
  ungetc(first, file);
  if (fscanf(file, "%d", label) != 1) return -1;
  for (int i = 0; i < PIXELS; ++i) {
    if (fscanf(file, "%f", &pixels[i]) != 1) return -1;
  }
  fscanf(file, "%*[ \r\n]");
  return 1;
}

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: %s MODEL.crumb DIGITS.txt\n", arguments[0]);
    return 2;
  }
  crumb_model* model = NULL;
  crumb_session* session = NULL;
  if (crumb_open(arguments[1], &model) != CRUMB_OK) return fail(arguments[1]);
  if (crumb_session_open(model, NULL, &session) != CRUMB_OK) return fail("session");

  FILE* file = fopen(arguments[2], "r");
  if (!file) {
    perror(arguments[2]);
    return 1;
  }
  const int64_t shape[] = {1, 1, 8, 8};
  float pixels[PIXELS];
  int label = 0, digits = 0, right = 0, read = 0;
  double seconds = 0;
  while ((read = read_digit(file, &label, pixels)) == 1) {
    const crumb_tensor input = {CRUMB_FLOAT32, 4, shape, pixels, sizeof pixels};
    crumb_tensor output;
    const double start = now();
    if (crumb_run(session, &input, 1) != CRUMB_OK) return fail("run");
    seconds += now() - start;
    if (crumb_result(session, 0, &output) != CRUMB_OK) return fail("result");
    if (output.type != CRUMB_FLOAT32 || output.bytes != CLASSES * sizeof(float)) {
      fprintf(stderr, "%s: expected ten floats, one for each digit\n", arguments[1]);
      return 1;
    }
    const float* scores = output.data;
    int best = 0;
    for (int i = 1; i < CLASSES; ++i) {
      if (scores[i] > scores[best]) best = i;
    }
    ++digits;
    right += best == label;
    if (best != label) printf("digit %d is a %d, taken for a %d\n", digits, label, best);
  }
  fclose(file);
  if (read < 0 || digits == 0) {
    fprintf(stderr, "%s: digit %d is not a label and 64 numbers\n", arguments[2], digits + 1);
    return 1;
  }
  printf("%d of %d digits are right, %.0f microseconds each\n", right, digits, 1e6 * seconds / digits);
  crumb_session_close(session);
  crumb_close(model);
  return 0;
}
