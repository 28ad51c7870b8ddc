#!/usr/bin/env python3
# Writes data/sound.gz, the results that test_sound.c compares with. Needs torch
# and torchaudio 2.11:
#     python3 make_sound.py
# torchaudio computes in float64 here, because its filters in float32 are less
# exact than the tests' tolerance.
import io, os, sys, wave
import numpy as np
import torch
import torchaudio
import torchaudio.functional as F
import torchaudio.transforms as T
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vision"))
from stored import put, save, noise, gradients

torch.set_default_dtype(torch.float64)
x = noise((2, 1200), 1, -1, 1, torch.float64)

def both(name, f, x=x, grad=True):
    x = x.clone().requires_grad_()
    y = f(x)
    put(name, y)
    if grad:
        put(name + "_grad", gradients(y, x)[0][..., :150])

# resampling
both("resample_441_160", lambda x: F.resample(x, 44100, 16000))
both("resample_up", lambda x: F.resample(x, 8000, 16000)[..., :500], grad=False)
both("resample_kaiser", lambda x: F.resample(x, 16000, 11025, 16, 0.9, "sinc_interp_kaiser")[..., :500])
both("resample_beta", lambda x: F.resample(x, 3, 2, 4, 1.0, "sinc_interp_kaiser", beta=5.0)[..., :400], grad=False)

# spectrograms
def spec(**k):
    k = dict(dict(n_fft=64, hop_length=48), **k)
    return T.Spectrogram(**k)
both("spec", spec())
both("spec_magnitude", spec(power=1.0, win_length=50))
both("spec_power", spec(power=0.5, n_fft=32, hop_length=None), x[:1, :400], grad=False)
both("spec_window", spec(normalized=True, pad=7, center=False), grad=False)
both("spec_length", spec(normalized="frame_length", pad_mode="constant", onesided=False), x[:1], grad=False)
c = spec(power=None, win_length=40, window_fn=torch.hamming_window)(x[0])
put("spec_complex", torch.view_as_real(c))
put("hamming", torch.hamming_window(40))
inverse = T.InverseSpectrogram(n_fft=64, hop_length=24)
c = T.Spectrogram(n_fft=64, hop_length=24, power=None)(x[:1, :500])
c = (torch.view_as_real(c) * noise((33, 21, 2), 5, 0.5, 1.5, torch.float64))
put("inverse", inverse(torch.view_as_complex(c)))
put("inverse_length", inverse(torch.view_as_complex(c), 470))

# mel
put("fbanks_htk", F.melscale_fbanks(65, 0, 8000, 20, 16000))
put("fbanks_slaney", F.melscale_fbanks(65, 50, 5000, 13, 16000, "slaney", "slaney"))
put("fbanks_odd", F.melscale_fbanks(40, 0, 5512, 10, 11025, "slaney"))
mel = dict(sample_rate=16000, n_fft=128, n_mels=20)
both("mel", T.MelSpectrogram(**mel))
both("mel_slaney", T.MelSpectrogram(f_min=60, f_max=6000, norm="slaney", mel_scale="slaney", power=1.0,
                                    hop_length=100, normalized=True, **mel))
p = T.MelSpectrogram(**mel)(x)
both("db", lambda p: F.amplitude_to_DB(p, 10, 1e-10, 0.0, 20.0), p, grad=False)
both("db_batch", lambda p: F.amplitude_to_DB(p[:, None], 20, 1e-5, 0.3, 15.0), p, grad=False)
put("amplitude", F.DB_to_amplitude(F.amplitude_to_DB(p, 10, 1e-10, 0.0), 2.0, 0.5))
both("mfcc", T.MFCC(16000, 13, melkwargs=dict(n_fft=128, n_mels=20)))
both("mfcc_log", T.MFCC(16000, 13, log_mels=True, norm=None, melkwargs=dict(n_fft=128, n_mels=20)), grad=False)

# mu-law
q = F.mu_law_encoding(x[0, :400].float(), 256)
put("mu", q.to(torch.uint8))
put("mu_decoded", F.mu_law_decoding(q, 256))

# files by Python's wave module
for bits in (8, 16, 24, 32):
    b = io.BytesIO()
    with wave.open(b, "wb") as w:
        w.setnchannels(2); w.setsampwidth(bits // 8); w.setframerate(11025)
        s = np.round(x[:, :21].numpy().T.reshape(-1) * (2 ** (bits - 1) - 1)).astype(np.int64)
        w.writeframes(b"".join(int(v + (128 if bits == 8 else 0)).to_bytes(bits // 8, "little", signed=bits != 8) for v in s))
    put(f"wav{bits}", np.frombuffer(b.getvalue(), np.uint8))
    put(f"wav{bits}_samples", s.reshape(21, 2).T / 2.0 ** (bits - 1))

save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "sound.gz"))
