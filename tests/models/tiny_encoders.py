"""Tiny sentence encoders of every family with drawn sizes and weights, in folders that sentence-transformers wrote.

Each family has the tokenizer of its published checkpoints, trained on a few lines by the `tokenizers` package. Weights, biases
and norms are drawn so large that what is left out or off by one shows.
"""

import json
import random
from functools import cache
from pathlib import Path

import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

FAMILIES = ["roberta", "xlm-roberta", "camembert", "mpnet", "qwen3", "qwen2", "modernbert", "gemma3"]

SCORERS = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "modernbert"]

ROTARY = ["qwen3", "qwen2", "modernbert", "gemma3"]

CORPUS = [
    "the quick brown fox jumps over the lazy dog and runs away from it",
    "embeddings of sentences are vectors, and vectors of like sentences are near each other",
    "Ünïcödé çà et là, naïve façade; ÉCOLE and œuvre",
    "東京タワーは高いです 我们去吃饭 한국어 문장입니다",
    "C++ x_y 3.14 1,000 e-mail http://a.b/c?d=e&f 1234567",
    "It's we'll they've I'm don't",
] * 3
LINES = [
    "",
    " ",
    "\t",
    "a",
    "  two  spaces ",
    "The quick brown fox",
    "don't THE they've 12345 lazy",
    "E\u0301cole naïve İI ß ﬁ",
    "東京 我们 한국",
    "😀 👩\u200d👧 🦄",
    "a\u00a0b\u3000c zero\u200bwidth",
    "x" * 130,
    "the lazy dog " * 40,
    "<pad> <mask> <s> in </s> the text<unk>",
    "[CLS] [MASK] b [SEP] <|endoftext|> c",
    "\u4e2d" * 90,
]


@cache
def byte_level(size: int, special: tuple[str, ...]) -> tuple[dict, list]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


@cache
def unigram(size: int) -> list:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False)  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    return [tuple(entry) for entry in json.loads(tokenizer.to_str())["model"]["vocab"]] + [("<mask>", 0.0)]


@cache
def word_piece(size: int, special: tuple[str, ...]) -> dict:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=list(special), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer.get_vocab()


@cache
def marked_spaces() -> tuple[dict, list]:
    """Gemma's: spaces as marks, bytes where no token is."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=450, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def tokenizer_of(family: str):
    if family == "bert":
        return transformers.BertTokenizer(vocab=word_piece(300, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")))
    if family == "gemma3":
        vocab, merges = marked_spaces()
        whole = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        whole.normalizer = normalizers.Replace(" ", "▁")
        whole.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        whole.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        around = [(token, vocab[token]) for token in ("<bos>", "<eos>")]
        whole.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=around)
        names = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk", "mask")}
        return transformers.PreTrainedTokenizerFast(tokenizer_object=whole, **names)
    if family == "mpnet":
        return transformers.MPNetTokenizer(vocab=word_piece(300, ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")))
    if family == "roberta":
        vocab, merges = byte_level(380, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
        return transformers.RobertaTokenizer(vocab=vocab, merges=merges)
    if family == "modernbert":
        special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
        vocab, merges = byte_level(400, special)
        whole = Tokenizer(models.BPE(vocab, merges))
        whole.normalizer = normalizers.NFC()
        whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        whole.decoder = decoders.ByteLevel()
        whole.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
        )
        names = dict(zip(["unk_token", "cls_token", "sep_token", "pad_token", "mask_token"], special))
        return transformers.PreTrainedTokenizerFast(tokenizer_object=whole, **names)
    if family.startswith("qwen"):
        vocab, merges = byte_level(420, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
        tokenizer = transformers.Qwen2Tokenizer(vocab=vocab, merges=merges, padding_side="left")
        ending = processors.TemplateProcessing(
            single="$A <|endoftext|>", pair="$A <|endoftext|> $B <|endoftext|>", special_tokens=[("<|endoftext|>", vocab["<|endoftext|>"])]
        )
        tokenizer.backend_tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), ending])
        return tokenizer
    return transformers.XLMRobertaTokenizer(vocab=unigram(240))


def config_of(family: str, tokenizer, rng: random.Random, **changes):
    heads, depth = rng.choice([1, 2, 3]), rng.choice([2, 4, 6, 10])
    sizes = {
        "vocab_size": len(tokenizer) + rng.choice([0, 3]), "hidden_size": heads * depth, "num_attention_heads": heads,
        "num_hidden_layers": rng.choice([1, 2, 3]), "intermediate_size": rng.choice([5, 24, 37]),
        "max_position_embeddings": rng.choice([21, 40, 300]), "layer_norm_eps": rng.choice([1e-5, 1e-12]),
        "hidden_act": rng.choice(["gelu", "relu", "gelu_new"]),
    }  # fmt: skip
    if family.startswith("qwen"):
        for key in ("layer_norm_eps", "hidden_act"):
            del sizes[key]
        classes = {"qwen3": transformers.Qwen3Config, "qwen2": transformers.Qwen2Config}
        sizes = {**sizes, "num_key_value_heads": rng.choice([n for n in (1, heads) if heads % n == 0]), "head_dim": depth,
                 "rope_theta": 1e4, "use_sliding_window": drawn_flag(rng), "sliding_window": 7, "max_window_layers": 1}  # fmt: skip
        return classes[family](**{**sizes, **changes})
    if family == "gemma3":
        del sizes["layer_norm_eps"], sizes["hidden_act"]
        sizes = {**sizes, "num_key_value_heads": rng.choice([n for n in (1, heads) if heads % n == 0]), "head_dim": depth,
                 "num_hidden_layers": rng.choice([2, 3]), "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                 "sliding_window": rng.choice([2, 5, 8, 512]), "query_pre_attn_scalar": rng.choice([3, 256]),
                 "use_bidirectional_attention": True, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}  # fmt: skip
        sizes["layer_types"] = sizes["layer_types"][: sizes["num_hidden_layers"]]
        return transformers.Gemma3TextConfig(**{**sizes, **changes})
    if family == "modernbert":
        del sizes["layer_norm_eps"], sizes["hidden_act"]
        sizes = {**sizes, "hidden_activation": rng.choice(["gelu", "silu"]), "local_attention": rng.choice([4, 9, 128]),
                 "global_attn_every_n_layers": rng.choice([1, 2, 3]), "norm_bias": drawn_flag(rng), "mlp_bias": drawn_flag(rng),
                 "attention_bias": drawn_flag(rng), "num_hidden_layers": rng.choice([1, 3, 4]), "cls_token_id": 1,
                 "sep_token_id": 2, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
        return transformers.ModernBertConfig(**{**sizes, **changes})
    classes = {"roberta": transformers.RobertaConfig, "xlm-roberta": transformers.XLMRobertaConfig,
               "camembert": transformers.CamembertConfig, "mpnet": transformers.MPNetConfig, "bert": transformers.BertConfig}  # fmt: skip
    if family == "bert":
        return classes[family](**{**sizes, "pad_token_id": 0, **changes})
    if family != "mpnet":
        sizes["type_vocab_size"] = rng.choice([1, 2])
    return classes[family](**{**sizes, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **changes})


def drawn_flag(rng: random.Random) -> bool:
    return rng.random() < 0.5


def draw_weights(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(drawn * (1.0 if "embed" in name or "relative" in name else parameter.shape[1] ** -0.5))
            else:
                parameter.copy_(drawn * 0.3 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0))


def write(family: str, folder: Path, seed: int, pooling="mean", include_prompt=True, dense=(), normalize=False,
          prompts=None, default_prompt=None, length=None, config=None) -> SentenceTransformer:  # fmt: skip
    """Draws an encoder, lets sentence-transformers write it into `folder`, and gives what it loads from there."""
    rng = random.Random(f"{family} {seed}")
    tokenizer = tokenizer_of(family)
    model = transformers.AutoModel.from_config(config_of(family, tokenizer, rng, **(config or {})))
    draw_weights(model, seed)
    plain = folder.parent / (folder.name + ".plain")
    tokenizer.model_max_length = length or longest_text(family, model.config)
    tokenizer.save_pretrained(plain)
    model.save_pretrained(plain)
    modules = [Transformer(str(plain)), Pooling(model.config.hidden_size, pooling, include_prompt=include_prompt)]
    for out, activation, bias in dense:
        modules.append(Dense(modules[-1].get_embedding_dimension(), out, bias=bias, activation_function=activation))
        draw_weights(modules[-1], seed)
    if normalize:
        modules.append(Normalize())
    SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name=default_prompt, device="cpu").save(str(folder))
    return load(folder)


def longest_text(family: str, config) -> int:
    return config.max_position_embeddings - (0 if family in [*ROTARY, "bert"] else 2)


def write_scorer(family: str, folder: Path, seed: int, labels: int, activation=None, as_model=False, length=None) -> CrossEncoder:
    """Draws an encoder with a head of classes, as transformers writes it, or (as_model) as sentence-transformers does."""
    rng = random.Random(f"{family} {seed}")
    tokenizer = tokenizer_of(family)
    changes = {"classifier_pooling": rng.choice(["cls", "mean"]), "classifier_bias": drawn_flag(rng)} if family == "modernbert" else {}
    config = config_of(family, tokenizer, rng, num_labels=labels, **changes)
    if activation is not None and not as_model:
        key = rng.choice(["sentence_transformers", "sbert_ce_default_activation_function"])
        path = f"{type(activation).__module__}.{type(activation).__name__}"
        setattr(config, key, {"activation_fn": path} if key == "sentence_transformers" else path)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    draw_weights(model, seed)
    tokenizer.model_max_length = length or longest_text(family, config)
    plain = folder.parent / (folder.name + ".plain") if as_model else folder
    tokenizer.save_pretrained(plain)
    model.save_pretrained(plain)
    if as_model:
        CrossEncoder(str(plain), activation_fn=activation, device="cpu").save(str(folder))
    return CrossEncoder(str(folder), device="cpu")


def load(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")
