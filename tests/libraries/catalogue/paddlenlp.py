"""Models of PaddleNLP: of each configuration the base model and up to four others, made small."""

import importlib
import inspect
import re

import numpy as np
import paddle

from compare import Model

# Settings of a small model, under the names that the configurations have for them.
SETTINGS = dict.fromkeys(["hidden_size", "d_model", "n_embd", "embedding_size", "word_embed_proj_dim", "emb_dim"], 32)
SETTINGS |= dict.fromkeys(["num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"], 2)
SETTINGS |= dict.fromkeys(["num_encoder_layers", "num_decoder_layers", "type_vocab_size"], 2)
SETTINGS |= dict.fromkeys(["num_attention_heads", "num_heads", "n_head", "n_heads", "nhead", "num_key_value_heads"], 4)
SETTINGS |= dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4)
SETTINGS |= dict.fromkeys(["intermediate_size", "d_ff", "ffn_dim", "dim_feedforward", "n_inner", "ffn_hidden_size"], 64)
SETTINGS |= dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "vocab_size"], 64)
SETTINGS |= dict.fromkeys(["max_position_embeddings", "max_sequence_length", "seq_length", "n_positions"], 64)
SETTINGS |= {"d_kv": 8, "d_head": 8}

HEADS = re.compile(
    "For(SequenceClassification|ConditionalGeneration|CausalLM|QuestionAnswering|TokenClassification|MaskedLM|Pretraining"
    "|MultipleChoice)|LMHead"
)

# Their parts of other kinds have the sizes of the published ones.
LARGE = re.compile("Blip2|MiniGPT4|VisualGLM")


def models():
    hub = importlib.import_module("aistudio_sdk.hub")
    hub.download = getattr(hub, "download", None)  # Newer releases have no such function; no model is downloaded here.
    from paddlenlp import transformers

    families = {}
    for name, kind in vars(transformers).items():
        if inspect.isclass(kind) and issubclass(kind, transformers.PretrainedModel) and kind.config_class:
            if not re.search("Pre[tT]rainedModel$", name) and not LARGE.match(name):
                families.setdefault(kind.config_class.__name__, []).append(name)
    chosen = []
    for _, names in sorted(families.items()):
        names.sort()
        base = [name for name in names if name.endswith("Model")][:1]
        chosen += list(dict.fromkeys(base + [name for name in names if HEADS.search(name)][:4])) or names[:2]
    return {name: model(getattr(transformers, name)) for name in chosen}


def model(kind):
    return Model(lambda: kind(small(kind.config_class)), lambda: ((), inputs(kind)))


def small(configuration):
    known = configuration()
    return configuration(**{name: value for name, value in SETTINGS.items() if hasattr(known, name)})


def inputs(kind):
    taken = inspect.signature(kind.forward).parameters
    mask = np.ones([2, 12], "int64")
    mask[1, 8:] = 0
    given = {
        "input_ids": paddle.randint(5, 60, [2, 12]),
        "src_word": paddle.randint(5, 60, [2, 12]),
        "attention_mask": paddle.to_tensor(mask),
        "decoder_input_ids": paddle.randint(5, 60, [2, 6]),
        "bbox": paddle.randint(0, 20, [2, 12, 4]),
        "pixel_values": paddle.randn([2, 3, 32, 32]),
    }
    given = {name: value for name, value in given.items() if name in taken}
    if "MultipleChoice" in kind.__name__:
        given = {name: paddle.stack([value, value], 1) for name, value in given.items()}
    if "return_dict" in taken and not taken["return_dict"].default:
        given["return_dict"] = True
    if "output_hidden_states" in taken:
        given["output_hidden_states"] = True
    return given
