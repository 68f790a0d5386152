"""True shapes of models that people score, from their published configurations."""

_LLAMA_3 = {"num_key_value_heads": 8, "rope_theta": 500_000.0}
# name -> family, size of the vocabulary, fields of the configuration
TRUE_SHAPES = {
    "Llama-3.2-1B": (
        "llama",
        128_256,
        _LLAMA_3
        | {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "head_dim": 64,
        },
    ),
    "Gemma-2-2B": (
        "gemma",
        256_000,
        {
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
        },
    ),
    "Llama-3.2-3B": (
        "llama",
        128_256,
        _LLAMA_3
        | {
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 28,
            "num_attention_heads": 24,
            "head_dim": 128,
        },
    ),
    "Llama-3.1-8B": (
        "llama",
        128_256,
        _LLAMA_3
        | {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "head_dim": 128,
        },
    ),
    "Gemma-2-27B": (
        "gemma",
        256_000,
        {
            "hidden_size": 4608,
            "intermediate_size": 36864,
            "num_hidden_layers": 46,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "query_pre_attn_scalar": 144,
        },
    ),
}
