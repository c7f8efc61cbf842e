"""Every network, one file each, imported when it is first asked for: ``from neuropil.models import CNN, CNNConfig``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuropil.models.attention import PatchAttention as PatchAttention
    from neuropil.models.attention import PatchAttentionConfig as PatchAttentionConfig
    from neuropil.models.autoencoder import Autoencoder as Autoencoder
    from neuropil.models.autoencoder import AutoencoderConfig as AutoencoderConfig
    from neuropil.models.bert import BERT as BERT
    from neuropil.models.bert import BERTConfig as BERTConfig
    from neuropil.models.captioner import Captioner as Captioner
    from neuropil.models.captioner import CaptionerConfig as CaptionerConfig
    from neuropil.models.clip import CLIP as CLIP
    from neuropil.models.clip import CLIPConfig as CLIPConfig
    from neuropil.models.cnn import CNN as CNN
    from neuropil.models.cnn import CNNConfig as CNNConfig
    from neuropil.models.diffusion import Diffusion as Diffusion
    from neuropil.models.diffusion import DiffusionConfig as DiffusionConfig
    from neuropil.models.forecaster import Forecaster as Forecaster
    from neuropil.models.forecaster import ForecasterConfig as ForecasterConfig
    from neuropil.models.gan import GAN as GAN
    from neuropil.models.gan import GANConfig as GANConfig
    from neuropil.models.gaussian_process import GaussianProcess as GaussianProcess
    from neuropil.models.gaussian_process import GaussianProcessConfig as GaussianProcessConfig
    from neuropil.models.gpt2 import GPT2 as GPT2
    from neuropil.models.gpt2 import GPT2Config as GPT2Config
    from neuropil.models.gru import GRU as GRU
    from neuropil.models.gru import GRUConfig as GRUConfig
    from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley as HodgkinHuxley
    from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxleyConfig as HodgkinHuxleyConfig
    from neuropil.models.hopfield.modern import ModernHopfield as ModernHopfield
    from neuropil.models.hopfield.modern import ModernHopfieldConfig as ModernHopfieldConfig
    from neuropil.models.hopfield.network import HopfieldNetwork as HopfieldNetwork
    from neuropil.models.hopfield.network import HopfieldNetworkConfig as HopfieldNetworkConfig
    from neuropil.models.lif import LIF as LIF
    from neuropil.models.lif import LIFConfig as LIFConfig
    from neuropil.models.lstm import LSTM as LSTM
    from neuropil.models.lstm import LSTMConfig as LSTMConfig
    from neuropil.models.mingru import MinGRU as MinGRU
    from neuropil.models.mingru import MinGRUConfig as MinGRUConfig
    from neuropil.models.mlp import MLP as MLP
    from neuropil.models.mlp import MLPConfig as MLPConfig
    from neuropil.models.population import Population as Population
    from neuropil.models.predictive_coding.network import PredictiveCoding as PredictiveCoding
    from neuropil.models.predictive_coding.network import PredictiveCodingConfig as PredictiveCodingConfig
    from neuropil.models.rbm import RBM as RBM
    from neuropil.models.rbm import RBMConfig as RBMConfig
    from neuropil.models.recurrent import RecurrentNetworkConfig as RecurrentNetworkConfig
    from neuropil.models.recurrent import Sequence as Sequence
    from neuropil.models.rnn import RNN as RNN
    from neuropil.models.rnn import RNNConfig as RNNConfig
    from neuropil.models.seq2seq import Seq2Seq as Seq2Seq
    from neuropil.models.seq2seq import Seq2SeqConfig as Seq2SeqConfig
    from neuropil.models.spiking.classifier import SpikingClassifier as SpikingClassifier
    from neuropil.models.spiking.classifier import SpikingClassifierConfig as SpikingClassifierConfig
    from neuropil.models.text_classifier import RecurrentTextClassifier as RecurrentTextClassifier
    from neuropil.models.text_classifier import RecurrentTextClassifierConfig as RecurrentTextClassifierConfig
    from neuropil.models.tracker import Tracker as Tracker
    from neuropil.models.tracker import TrackerConfig as TrackerConfig
    from neuropil.models.transformer import Transformer as Transformer
    from neuropil.models.transformer import TransformerConfig as TransformerConfig
    from neuropil.models.unet.network import UNet as UNet
    from neuropil.models.unet.network import UNetConfig as UNetConfig
    from neuropil.models.universal_approximation import UniversalApproximator as UniversalApproximator
    from neuropil.models.universal_approximation import UniversalApproximatorConfig as UniversalApproximatorConfig
    from neuropil.models.vae import VAE as VAE
    from neuropil.models.vae import VAEConfig as VAEConfig
    from neuropil.models.vit import ViT as ViT
    from neuropil.models.vit import ViTConfig as ViTConfig
    from neuropil.models.word2vec.network import Word2Vec as Word2Vec
    from neuropil.models.word2vec.network import Word2VecConfig as Word2VecConfig

MODELS = {
    "BERT": "bert",
    "CLIP": "clip",
    "GPT2": "gpt2",
    "ViT": "vit",
    "Autoencoder": "autoencoder",
    "CNN": "cnn",
    "Captioner": "captioner",
    "Diffusion": "diffusion",
    "Forecaster": "forecaster",
    "GAN": "gan",
    "GRU": "gru",
    "GaussianProcess": "gaussian_process",
    "LSTM": "lstm",
    "MLP": "mlp",
    "MinGRU": "mingru",
    "ModernHopfield": "hopfield.modern",
    "PatchAttention": "attention",
    "PredictiveCoding": "predictive_coding.network",
    "RBM": "rbm",
    "RNN": "rnn",
    "Seq2Seq": "seq2seq",
    "RecurrentNetwork": "recurrent",
    "RecurrentTextClassifier": "text_classifier",
    "SpikingClassifier": "spiking.classifier",
    "Tracker": "tracker",
    "Transformer": "transformer",
    "UNet": "unet.network",
    "UniversalApproximator": "universal_approximation",
    "VAE": "vae",
    "Word2Vec": "word2vec.network",
}
"""Each model's class and its file, with its Config beside it; tests/contracts covers all of them."""

SIMULATORS = {
    "HodgkinHuxley": "hodgkin_huxley.neuron",
    "HopfieldNetwork": "hopfield.network",
    "LIF": "lif",
    "Population": "population",
}
"""What runs in time and is not trained by gradients, with the file that holds it."""


def __getattr__(name: str) -> Any:
    file = (MODELS | SIMULATORS).get(name.removesuffix("Config"))
    if file is None:
        raise AttributeError(f"module 'neuropil.models' has no attribute {name!r}")
    return getattr(import_module(f"neuropil.models.{file}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *SIMULATORS, *MODELS, *(f"{model}Config" for model in MODELS)])
