// Evaluations of models of texts.
#pragma once

#include "jobs/evaluate.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Perplexity of language models: samples are pieces of 64 tokens, so that tokens which depend on each other
/// are drawn together. As crumb perplexity measures.
EvaluateReport evaluate_language(const EvaluateRequest& request, Observer& observer);

/// Vectors of sentence encoders: samples are lines. With labels, how well cosines of the two sentences of a
/// line rank as they do.
EvaluateReport evaluate_sentences(const EvaluateRequest& request, Observer& observer);

}  // namespace crumb::jobs
