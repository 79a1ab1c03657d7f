"""Mistakes that users make at the command line and with files: each ends with its exit code and a sentence.

The rows name files of `support.mistakes`. Nothing is left behind, and nothing is changed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import mistakes

ROWS = """
frobnicate => 2 No such command 'frobnicate'.
--frobnicate => 2 No such option
verfy m.onnx => 2 No such command 'verfy'. Did you mean 'verify'?
VERIFY m.onnx => 2 No such command 'VERIFY'. Did you mean 'verify'?
verify => 2 Missing argument 'MODEL...'.
verify nope.onnx => 2 error[I100]: there is no such file or folder
verify empty.onnx => 2 error[O100]: the file is empty
verify half.onnx => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
verify garbage.onnx => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
verify text.onnx => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
verify page.onnx => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
verify pointer.onnx => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
verify dir.onnx => 2 error[O100]: the model must be a regular file
verify . => 2 error[O100]: the model must be a regular file
verify loop => 2 error[O100]: cannot read the model: Too many levels of symbolic links
verify gone => 2 error[I100]: there is no such file or folder
verify notes.txt => 2 error[O100]: not an ONNX model, or cut short: there is no graph with nodes in it
verify b => 2 error[O100]: the model must be a regular file
verify m.onnx --layer cnov => 2 error[I100]: there is no layer 'cnov'
verify two.onnx --layer STEM => 2 did you mean 'stem'?
verify two.onnx --layer stm => 2 error[I100]: there is no layer 'stm'
verify two.onnx --layer 'layer*' => 2 error[I100]: there is no layer 'layer*'
verify two.onnx --layer relu => 2 error[O200]: fused into convolution 'stem'
verify m.onnx --layer '' => 2 error[I100]: there is no layer ''
verify m.onnx --seed -1 => 2 Invalid value for '--seed': -1 is not in the range x>=0.
verify m.onnx --seed x => 2 Invalid value for '--seed': 'x' is not a valid integer range.
verify m.onnx --seed 1.5 => 2 Invalid value for '--seed': '1.5' is not a valid integer range.
verify m.onnx --batch 0 => 2 error[I100]: the model has a batch of 1, got 0
verify m.onnx --batch -3 => 2 Invalid value for '--batch': -3 is not in the range x>=0.
verify m.onnx --batch 3 => 2 error[I100]: the model has a batch of 1, got 3
verify m.onnx --batch 1 --batch 2 => 2 --batch takes one value and is given twice.
verify m.onnx --schedule slide --schedule=reload => 2 --schedule takes one value and is given twice.
verify m.onnx --seed 1 --seed 1 --seed 2 => 2 --seed takes one value and is given 3 times.
verify m.onnx --batch 99999999999999999999 => 2 error[I100]: batch must be at most 9223372036854775807, got 9999999999
verify two.onnx --reweight 1 --batch 99999999999999999999 => 2 error[I100]: batch must be at most 922337
verify m.onnx --batch many => 2 Invalid value for '--batch': 'many' is not a valid integer range.
verify open.onnx --batch -1 => 2 Invalid value for '--batch': -1 is not in the range x>=0.
verify m.onnx --dtype f64 => 2 nvfp4; float64 is not compiled
verify m.onnx --dtype fp8 => 2 nvfp4; fp8 is e4m3 or e5m2
verify m.onnx --dtype bfloat16 => 2 nvfp4; say bf16
inspect m.onn => 2 hint: did you mean 'm.onnx'?
verify m.onnx --schedule relaod => 2 hint: did you mean 'reload'?
verify m.onnx --rasterization-order hilbrt => 2 hint: did you mean 'hilbert'?
compile m.onnx -o new --persistent on --ctas 99999999999999999999 => 2 is not in the range 1<=x<=2147483647
verify no/m.onnx => 2 hint: the folder 'no' is not there
verify m.onnx --dtype F16 => 2 nvfp4; did you mean 'f16'?
verify m.onnx --dtype int8 => 2 Invalid value for '--dtype': 'int8' is not one of
verify m.onnx --precision fp32 => 2 Invalid value for '--precision': 'fp32' is not one of
verify m.onnx --precision tf32x3 => 2 error[I100]: tf32x3 is a way to multiply float32, the convolutions are
verify m.onnx --precision bf16x6 => 2 error[I100]: bf16x6 is a way to multiply float32, the convolutions are
verify two.onnx --dtype f16 --precision tf32 => 2 error[I100]: dtype replaces float32, whose precision is then not used
verify m.onnx --numerics double => 2 Invalid value for '--numerics': 'double' is not one of
verify m.onnx --schedule fast => 2 error[I100]: schedule must be one of auto, reload, slide, shift, stationary, g
verify m.onnx --schedule slide --shift chain => 2 error[I100]: shift chain needs schedule shift, and schedule is slide
verify m.onnx --shift chain => 2 error[I100]: shift chain needs schedule shift, and schedule is auto
verify m.onnx --schedule reload --border mask => 2 error[I100]: border mask and schedule reload exclude each other
verify m.onnx --schedule reload --rows outer => 2 error[I100]: rows outer and schedule reload exclude each oth
verify m.onnx --border nothing => 2 error[I100]: border must be one of auto, mask, zero, got 'nothing'
verify m.onnx --rows all => 2 error[I100]: rows must be one of auto, outer, merged, got 'all'
verify m.onnx --jobs 0 => 2 Invalid value for '--jobs': 0 is not in the range 1<=x<=1024.
verify m.onnx --jobs 5000 => 2 Invalid value for '--jobs': 5000 is not in the range 1<=x<=1024.
verify m.onnx --jobs x => 2 Invalid value for '--jobs': 'x' is not a valid integer range.
verify m.onnx --executor ray => 2 error[I100]: expected an executor, processes or dask://HOST:PORT, got 'ray'
verify m.onnx --executor dask:// => 2 error[I100]: expected an executor, processes or dask://HOST:PORT, got 'dask
verify m.onnx --executor dask://localhost => 2 error[I100]: expected an executor, processes or dask://HOST:PORT,
verify m.onnx --executor dask://localhost:1 --jobs 2 => 2 error[I100]: jobs are processes of this machine; a Dask
verify m.onnx --host onnxruntime => 2 --host is for whole networks: give --reweight or --input too.
verify m.onnx --host gpu => 2 Invalid value for '--host': 'gpu' is not one of
verify m.onnx --reweight x => 2 Invalid value for '--reweight': 'x' is not a valid integer range.
verify m.onnx --reweight -1 => 2 Invalid value for '--reweight': -1 is not in the range x>=0.
verify m.onnx --reweight 1 --layer conv => 2 --reweight runs the whole network: leave --layer out.
verify m.onnx --reweight 1 --counts => 2 --reweight runs the whole network: leave --counts out.
verify m.onnx --reweight 1 --seed 2 => 2 --reweight runs the whole network: leave --seed out.
verify m.onnx --reweight 1 --jobs 2 => 2 --reweight runs the whole network: leave --jobs out.
verify m.onnx --reweight 1 --csv t.csv => 2 --reweight runs the whole network: leave --csv out.
verify m.onnx two.onnx --reweight 1 => 2 --reweight runs one network: give one MODEL.
verify m.onnx two.onnx --layer conv => 2 --layer names a layer of one model: give one MODEL.
verify m.onnx two.onnx --annotate o.onnx => 2 --annotate copies one model: give one MODEL.
verify m.onnx --json => 2 Option '--json' requires an argument.
verify m.onnx --json no/r.json => 2 error[I100]: the folder to write to does not exist
verify m.onnx --json void => 2 error[I100]: expected the name of a file, this is a folder
verify m.onnx --json m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
verify m.onnx --csv m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
verify m.onnx --json r --csv r => 2 error[I100]: two reports have the same file name
verify m.onnx --json - --csv - => 2 error[I100]: only one report can go to stdout (-)
verify m.onnx --counts --json - => 2 --counts lists on stdout, where a report goes: leave it out (--json has the
verify m.onnx --annotate m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
verify m.onnx --annotate - => 2 --annotate takes the name of a file: only reports go to stdout (-).
verify escape.onnx --layer nope => 2 hint: layers: a\\x1b[31m
verify m.onnx --annotate no/o.onnx => 2 error[I100]: the folder to write to does not exist
verify m.onnx --json notes.txt/r.json => 2 error[I100]: the folder to write to does not exist
verify m.onnx --no-fusing => 2 No such option
verify m.onnx --layers conv => 2 No such option
verify stride0.onnx => 2 error[O200]: strides must be at least 1, got (0, 1)
verify stride3.onnx => 2 error[O200]: strides must have 2 entries, got (1, 1, 1)
verify dilation0.onnx => 2 error[O200]: dilations must be at least 1, got (0, 1)
verify kernel_other.onnx => 2 error[O200]: kernel_shape is (5, 5), the weights have (3, 3)
verify kernel_long.onnx => 2 error[O200]: kernel_shape is (3, 3, 3), the weights have (3, 3)
verify pads_short.onnx => 2 error[O200]: pads must have 4 entries, got (1, 1)
verify pads_negative.onnx => 2 error[O200]: pads must be at least 0, got (-1, 0
verify auto_pad.onnx => 2 error[O200]: auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got SAME_MIDDLE
verify group3.onnx => 2 error[O200]: the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C/3, R, S)
verify group0.onnx => 2 error[O200]: group must be at least 1, got 0
verify nopixel.onnx => 2 error[C100]: the output has no pixel along H: the filter spans 9 pixels, the input with
verify channels.onnx => 2 error[O200]: the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C, R, S)
verify rank4.onnx => 2 error[O200]: weights must have shape (K, C, [[T,] R,] S), for 1 to 3 spatial axes, got (8,
verify rank0.onnx => 2 error[O200]: weights must have shape (K, C, [[T,] R,] S), for 1 to 3 spatial axes, got (8,
verify rankmix.onnx => 2 error[O200]: the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C, R, S) =
verify noconv.onnx => 2 error[O100]: the model has no convolution
verify computed.onnx => 2 error[O200]: the weights must be constant, and 'w' is not
verify noweight.onnx => 2 error[O200]: the weights must be constant, and 'w' is not
verify noinput.onnx => 2 error[O200]: the shape of the input 'z' cannot be inferred
verify oneinput.onnx => 2 error[O200]: a Conv has 2 or 3 inputs and 1 output, got 1 and 1
verify doubles.onnx => 2 error[O200]: convolutions of f64 are not compiled; f16, bf16 and f32 are
verify halfweights.onnx => 2 error[O200]: the input is f32, the weights float16: they must be the same
verify bias.onnx => 2 error[O200]: the bias must have one number per output channel, (8,), got (7,)
verify opensize.onnx => 2 error[O200]: the shape of the input 'x' is not fixed: (1, 4, ?, ?)
verify oldopset.onnx => 2 error[O100]: expected ONNX operator set 7 to 28, got 3
verify newopset.onnx => 2 error[O100]: expected ONNX operator set 7 to 28, got 99
verify newir.onnx => 2 error[O100]: expected ONNX IR version 3 to 14, got 99
verify cycle.onnx => 2 error[O100]: the graph has a cycle: 'c'
verify second.onnx => 2 error[O200]: the input has shape (N, C, H, W) = (1, 8, 6, 6), the weights (K, C, R, S) =
verify second.onnx --layer d => 2 error[O200]: the input has shape (N, C, H, W) = (1, 8, 6, 6), the weights (K, C
verify ext_missing.onnx => 2 error[O100]: there is no file 'nowhere.bin' beside the model
verify ext_outside.onnx => 2 error[O100]: external data '../secret.bin' does not lie in the folder of the model
verify ext_absolute.onnx => 2 error[O100]: external data '/etc/passwd' does not lie in the folder of the model
verify ext_short.onnx => 2 error[O100]: 'short.bin' ends before byte 1152
verify ext_offset.onnx => 2 error[O100]: offset and length of external data must be whole numbers
verify ext_nowhere.onnx => 2 error[O100]: external data '' does not lie in the folder of the model
verify /dev/null => 2 error[O100]: the model must be a regular file
verify m.onnx --markdown m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
verify m.onnx --markdown - --csv - => 2 error[I100]: only one report can go to stdout (-)
verify m.onnx --annotate void => 2 error[I100]: expected the name of a file, this is a folder
verify m.onnx --executor processes --jobs x => 2 Invalid value for '--jobs': 'x' is not a valid integer range.
verify m.onnx --switch elect=lowest => 2 No such option
compile => 2 Missing argument 'MODEL'.
compile m.onnx => 2 Missing option '-o' / '--output'.
compile -o new => 2 Missing argument 'MODEL'.
compile nope.onnx -o new => 2 error[I100]: there is no such file or folder
compile half.onnx -o new => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf message
compile noconv.onnx -o new => 2 error[O100]: the model has no convolution
compile m.onnx -o notes.txt => 2 error[I100]: cannot write a build here: a file of that name exists
compile m.onnx -o mine => 2 error[I100]: cannot write a build here: the folder holds 'notes.txt', which convc did
compile m.onnx -o . => 2 error[I100]: cannot write a build here: the folder holds 'auto_pad.onnx', which convc di
compile m.onnx -o notes.txt/b => 2 error[I100]: cannot write a build here:
compile m.onnx -o gone => 2 error[I100]: cannot write a build here: a file of that name exists
compile m.onnx -o loop => 2 error[I100]: cannot write a build here: a file of that name exists
compile m.onnx -o '' => 2 Invalid value for '-o' / '--output': expected the name of a file or folder, got an empt
launch b --seed 1 --seed 2 => 2 --seed takes one value and is given twice.
compile m.onnx -o new --output other => 2 --output takes one value and is given twice.
compile m.onnx -o - => 2 -o takes a folder, which stdout (-) is not.
compile m.onnx -o new --layer cnov => 2 error[I100]: there is no layer 'cnov'
compile two.onnx -o new --layer relu => 2 error[O200]: fused into convolution 'stem'
compile m.onnx two.onnx -o new => 2 Got unexpected extra argument
compile m.onnx -o new --batch 2 => 2 error[I100]: the model has a batch of 1, got 2
compile m.onnx -o new --precision bf16x3 => 2 error[I100]: bf16x3 is a way to multiply float32, the convoluti
compile m.onnx -o new --json no/r.json => 2 error[I100]: the folder to write to does not exist
compile m.onnx -o b --json b/network.json => 2 error[I100]: this lies in 'b', which the command replaces
compile m.onnx -o new --json m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
compile m.onnx -o new --schedule quick => 2 error[I100]: schedule must be one of auto, reload, slide, shift, stat
compile m.onnx -o new --persistent on --work fetched => 2 --work is called --tile-scheduler: convc compile m.onnx -o
compile m.onnx -o new --work=static => 2 --work is called --tile-scheduler: convc compile m.onnx -o new --tile-scheduler
verify m.onnx --pairs off => 2 --pairs is called --cta-group: convc verify m.onnx --cta-group 1
verify m.onnx --tile-order columns => 2 --tile-order is called --rasterization-order: convc verify m.onnx --raster
draw rasterization-order --grid 4x4 --order grouped => 2 --order is called --rasterization-order: convc draw rasterizat
draw tile-order --grid 4x4 => 2 tile-order is called rasterization-order: convc draw rasterization-order --grid 4x4
compile m.onnx -o new --dependent-launch => 2 --dependent-launch is called --pdl: convc compile m.onnx -o new --pdl
compile m.onnx -o new --shift windows => 2 error[I100]: shift windows needs schedule shift, and schedul
compile m.onnx -o new --jobs 0 => 2 Invalid value for '--jobs': 0 is not in the range 1<=x<=1024.
compile group3.onnx -o new => 2 error[O200]: the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C/3
compile huge.onnx -o new => 2 where: layer 'c', conv3x3_c4_k8: 1x4x2147483648x2147483648 * 8x4x3x3 ->
inspect huge.onnx --layer c => 2 where: layer 'c', conv3x3_c4_k8: 1x4x2147483648x2147483648 * 8x4x3x3 ->
compile m.onnx -o new --assemble=yes => 2 Option '--assemble' does not take a value.
compile m.onnx -o new --numerics exact => 2 No such option
run => 2 Missing argument 'DIR|MODEL.onnx'.
run b => 2 Missing option '-o': a layer of a build folder takes one file.
run b --input x.npy => 2 Missing option '-o': a layer of a build folder takes one file.
run b -o y.npy => 2 Missing option '--input': a layer of a build folder takes one file.
run nope --input x.npy -o y.npy => 2 error[I100]: there is no such file or folder
run void --input x.npy -o y.npy => 2 error[B100]: not a build folder: it has no network.json
run mine --input x.npy -o y.npy => 2 error[B100]: not a build folder: it has no network.json
run b --input nope.npy -o y.npy => 2 error[I100]: there is no such file or folder
run b --input x_channels.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W),
run b --input x_flat.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W), got
run b --input x_nhwc.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W), got
run b --input x_batch.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W), got
run b --input x_int.npy -o y.npy => 2 error[I100]: expected an input of float16, bfloat16, float32 or float64, go
run b --input x_bool.npy -o y.npy => 2 error[I100]: expected an input of float16, bfloat16, float32 or float64, g
run b --input x_complex.npy -o y.npy => 2 error[I100]: expected an input of float16, bfloat16, float32 or float64
run b --input x_text.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W), got
run b --input x_scalar.npy -o y.npy => 2 error[I100]: expected an input of shape [1, 16, 12, 12] (N, C, H, W), go
run b --input x_objects.npy -o y.npy => 2 error[I100]: expected an array of numbers, got object [2]
run b --input x_fields.npy -o y.npy => 2 error[I100]: expected an array of numbers, got void64 [3]
run b --input x_cut.npy -o y.npy => 2 error[I100]: the file is truncated: float16 [1, 16, 12, 12] takes 4608 byte
run b --input x_header.npy -o y.npy => 2 error[I100]: not a .npy file: EOF: reading array header, expected 118 by
run b --input x_empty.npy -o y.npy => 2 error[I100]: not a .npy file: EOF: reading magic string, expected 8 bytes
run b --input x_csv.npy -o y.npy => 2 error[I100]: not a .npy file: EOF: reading magic string, expected 8 bytes g
run b --input x_version.npy -o y.npy => 2 error[I100]: not a .npy file: its format version is 9.0; 1.0 and 2.0 ar
run b --input x_dir.npy -o y.npy => 2 error[I100]: expected a .npy or .npz file, this is not a regular file
run b --input m.onnx -o y.npy => 2 error[I100]: not a .npy file: the magic string is not correct; expected b'\\x93
run b --input x.npy -o void => 2 error[I100]: expected the name of a file, this is a folder
run b --input x.npy -o no/y.npy => 2 error[I100]: the folder to write to does not exist
run b --input x.npy -o x.npy => 2 error[I100]: this would overwrite 'x.npy', which is read here
run b --input x.npy -o b/network.json => 2 error[I100]: this would overwrite 'b/network.json' of 'b', which is re
run b --input x.npy --input x2.npy -o y.npy => 2 error[I100]: --input needs names: NAME=FILE
run b --input x=x.npy -o y.npy => 2 a layer of a build folder takes one '--input', a file without NAME.
run b --input x.npy -o y.npy --layer cnov => 2 error[I100]: there is no layer 'cnov'
run b2 --input x2.npy -o y.npy => 2 error[I100]: there are 2 layers: choose one with --layer
run b2 --input x2.npy -o y.npy --layer '*e*' => 2 error[I100]: '*e*' matches 2 layers, expected one
run b --input x.npy -o y.npy --residual x.npy => 2 error[I100]: the layer adds no residual, and there is one
run b --input x.npy -o y.npy --dtype f16 => 2 --dtype, --precision, --batch, --shape, --no-fuse, --host
run b --input x.npy -o y.npy --no-fuse => 2 --dtype, --precision, --batch, --shape, --no-fuse, --host
run b --input x.npy -o y.npy --host onnxruntime => 2 --dtype, --precision, --batch, --shape, --no-fuse, --host
run b --input x.npy -o y.npy --switch elected=highest => 2 error[I100]: there is no switch 'elected'
run b --input x.npy -o y.npy --switch elect=first => 2 error[I100]: switch elect must be one of lowest, highest,
run b --input x.npy -o y.npy --switch elect => 2 error[I100]: switch elect must be one of lowest, highest, got no
run b --input x.npy -o y.npy --switch elect=lowest --switch elect=highest => 2 error[I100]: switch elect is given
run b --input x.npy -o y.npy --numerics half => 2 Invalid value for '--numerics': 'half' is not one of
run b --input x.npy -o y.npy --json y.npy => 2 error[I100]: two reports have the same file name
run b --input x.npy -o y.npy --batch 2 => 2 --dtype, --precision, --batch, --shape, --no-fuse, --host
run m.onnx => 2 error[I100]: the input 'x' is missing
run m.onnx --seed 1 --save-inputs - => 2 --save-inputs takes the name of a file: only results and reports go to
run m.onnx --input '' => 2 Invalid value for '--input': expected the name of a file, got an empty text
run m.onnx --input x= => 2 Invalid value for '--input': expected the name of a file, got an empty text
run m.onnx --seed 1 -o '' => 2 Invalid value for '-o' / '--output': expected the name of a file, got an empty text
verify m.onnx --input x.npy --expect y= => 2 Invalid value for '--expect': expected the name of a file, got an empty
run m.onnx --input z=x.npy => 2 error[I100]: the model has no input named 'z'
run m.onnx --input x.npy -o z=y.npy => 2 error[I100]: the model has no output named 'z'
run m.onnx --input x_channels.npy => 2 error[I100]: expected an array of shape [1, 16, 12, 12], got [1, 15, 12, 1
run m.onnx --input x_flat.npy => 2 error[I100]: expected an array of shape [1, 16, 12, 12], got [2304]
run m.onnx --input x_text.npy => 2 error[I100]: expected an array of float16, got str32
run m.onnx --input nope.npy => 2 error[I100]: there is no such file or folder
run m.onnx --input x.npy --input x=x.npy => 2 error[I100]: --input is given twice for 'x'
run m.onnx --input x.npy --layer conv => 2 --layer is for build folders: a model runs as a whole.
run m.onnx --input x.npy --residual x.npy => 2 --residual is for build folders: a model runs as a whole.
run m.onnx --input x.npy --precision bf16x3 => 2 error[I100]: bf16x3 is a way to multiply float32, the convol
run m.onnx --input x.npy -o m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
run unknown.onnx --input x2.npy => 2 error[I100]: expected an array of shape [1, 4, 8, 8], got [1, 3, 16, 16]
run nope.onnx --input x.npy => 2 error[I100]: there is no such file or folder
run half.onnx --input x.npy => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf messa
run notes.txt --input x.npy => 2 error[O100]: not an ONNX model, or cut short: there is no graph with nodes in it
run broken/format --input x.npy -o y.npy => 2 error[B100]: expected format 'convc-build/4', got 'convc-build/1'
run broken/field --input x.npy -o y.npy => 2 error[B100]: damaged: Object contains unknown field `surprise`
run broken/nolayers --input x.npy -o y.npy => 2 error[B100]: damaged: Object missing required field `layers`
run broken/kernelname --input x.npy -o y.npy => 2 error[B100]: damaged: Expected `str` matching regex '^[0-9a-f]{
run broken/stem --input x.npy -o y.npy => 2 error[B100]: damaged: Expected `str` matching regex '^[A-Za-z0-9_][A-
run broken/problem --input x.npy -o y.npy => 2 error[B100]: damaged: stride must be at least 1 along every axis,
run broken/twice --input x.npy -o y.npy => 2 error[B100]: damaged: two layers are called 'conv'
run broken/operand --input x.npy -o y.npy => 2 error[B100]: damaged: operand must be one of f16, bf16, tf32, e4m3
run broken/none --input x.npy -o y.npy => 2 error[B100]: damaged: it has no layer
run broken/nonetwork --input x.npy -o y.npy => 2 error[B100]: not a build folder: it has no network.json
run broken/nojson --input x.npy -o y.npy => 2 error[B100]: damaged: Input data was truncated
run broken/emptyjson --input x.npy -o y.npy => 2 error[B100]: damaged: Input data was truncated
run broken/nokernel --input x.npy -o y.npy => 2 error[L100]: there is no such file or folder
run broken/noweights --input x.npy -o y.npy => 2 error[B100]: there is no such file or folder
run broken/noptx --input x.npy -o y.npy => 2 error[B100]: there is no such file or folder
run broken/emptyptx --input x.npy -o y.npy => 2 error[P100]: a PTX file begins with .version, this one with the e
run broken/binaryptx --input x.npy -o y.npy => 2 error[B100]: the text is not UTF-8: invalid start byte
run broken/nolaunch --input x.npy -o y.npy => 2 error[L100]: there is no such file or folder
run broken/launch --input x.npy -o y.npy => 2 error[L100]: not a launch file: Expected `object`, got `array`
run broken/grid --input x.npy -o y.npy => 2 error[L100]: grid.x must be in 1..2147483647, got 0
run broken/buffer --input x.npy -o y.npy => 2 error[B100]: buffer 'output' must be f16 [1, 12, 12, 24] for this l
run broken/weights --input x.npy -o y.npy => 2 error[B100]: expected float16 [24, 9, 16], got float16 [3]
run broken/cutweights --input x.npy -o y.npy => 2 error[B100]: the file is truncated: float16 [24, 9, 16] takes 6
run broken/typo --input x.npy -o y.npy => 2 error[P100]: unknown instruction 'mbarier'
run b --input /dev/null -o y.npy => 2 error[I100]: expected a .npy or .npz file, this is not a regular file
run b --input x.npy -o y.npy --residual nope.npy => 2 error[I100]: there is no such file or folder
run b --input x.npy -o y.npy --json void => 2 error[I100]: expected the name of a file, this is a folder
run m.onnx --input x.npy --batch 2 => 2 error[I100]: the inputs that are given set the batch: batch is for random inputs
run m.onnx --input x.npy --host gpu => 2 Invalid value for '--host': 'gpu' is not one of
run m.onnx --input x.npy --precision fp32 => 2 Invalid value for '--precision': 'fp32' is not one of
check => 2 Missing argument 'DIR'.
check nope => 2 error[I100]: there is no such file or folder
check m.onnx => 2 error[B100]: expected a build folder
check void => 2 error[B100]: not a build folder: it has no network.json
check b --layer cnov => 2 error[I100]: there is no layer 'cnov'
check b --seed -1 => 2 Invalid value for '--seed': -1 is not in the range x>=0.
check b --switch elect=first => 2 error[I100]: switch elect must be one of lowest, highest, got 'first'
check b --switch colour=red => 2 error[I100]: there is no switch 'colour'
check b --json b/network.json => 2 error[I100]: this would overwrite 'b/network.json' of 'b', which is read here
check b --sarif no/r.sarif => 2 error[I100]: the folder to write to does not exist
check b --sarif - --json - => 2 error[I100]: only one report can go to stdout (-)
check broken/nojson => 2 error[B100]: damaged: Input data was truncated
check broken/noptx => 2 error[B100]: there is no such file or folder
check broken/typo => 2 error[P100]: unknown instruction 'mbarier'
check broken/none => 2 error[B100]: damaged: it has no layer
check b --jobs 2 => 2 No such option
check b b2 => 2 Got unexpected extra argument
inspect => 2 Missing argument 'MODEL' (or --example).
inspect nope.onnx --layer conv => 2 error[I100]: there is no such file or folder
inspect m.onnx --layer conv --layer conv => 2 --layer takes one value and is given twice.
inspect m.onnx --layer cnov => 2 error[I100]: there is no layer 'cnov'
inspect two.onnx --layer '*e*' => 2 error[I100]: '*e*' matches 2 layers, expected one
inspect two.onnx --layer relu => 2 error[O200]: fused into convolution 'stem'
inspect m.onnx --layer conv --lanes 99 => 2 error[I100]: there is no tile 99
inspect m.onnx --layer conv --lanes x => 2 Invalid value for '--lanes': 'x' is not a valid integer range.
inspect m.onnx --layer conv --all-lanes => 2 --all-lanes is for lists of lanes: give --lanes (or --example) too.
inspect m.onnx --layer conv --svg no/t.svg => 2 error[I100]: the folder to write to does not exist
inspect m.onnx --layer conv --json m.onnx => 2 error[I100]: this would overwrite 'm.onnx', which is read here
inspect m.onnx --layer conv --schedule reload --rows outer => 2 error[I100]: rows outer and schedule reload exclu
inspect m.onnx --example => 2 --example shows its own convolution: leave MODEL and the options about it out.
inspect --example --layer conv => 2 --example shows its own convolution: leave MODEL and the options about it out
inspect --example --dtype f16 => 2 --example shows its own convolution: leave MODEL and the options about it out.
inspect --example --no-fuse => 2 --example shows its own convolution: leave MODEL and the options about it out.
inspect m.onnx two.onnx --layer conv => 2 Got unexpected extra argument
inspect m.onnx --layer conv --batch 2 => 2 error[I100]: the model has a batch of 1, got 2
inspect m.onnx --layer conv --precision bf16x3 => 2 error[I100]: bf16x3 is a way to multiply float32, the con
inspect half.onnx --layer conv => 2 error[O100]: not an ONNX model, or cut short: the bytes are not a protobuf me
time m.onnx --what-if tmem.bank => 2 error[I100]: chip b200 has no parameter 'tmem.bank'; did you mean tmem.banks?
time m.onnx --what-if tmem.banks=8x64 => 2 error[I100]: what-if takes a name alone, as in tmem.banks, got
time m.onnx --set tmem.banks=8x46 => 2 error[I100]: tmem.banks must be one of published, 8x64, 4x128, got '8x46'
time m.onnx --set tma.fill=1e-300 => 2 error[I100]: no time can be computed on chip b200 with tma.fill as set: Numeric
time m.onnx --set chip.sms=0.5 => 2 error[I100]: no time can be computed on chip b200 with chip.sms as set: integer div
time m.onnx --set tmem.bank=8x64 => 2 error[I100]: chip b200 has no parameter 'tmem.bank'; did you mean tmem.banks?
time m.onnx --what-if => 2 Option '--what-if' requires an argument.
report => 2 Missing option '-o' / '--output'.
report m.onnx => 2 Missing option '-o' / '--output'.
report nope.onnx -o x.html => 2 error[I100]: there is no such file or folder
report m.onnx -o x.svg => 2 Invalid value for '-o' / '--output': expected FILE.html or - for stdout, got 'x.svg'
report m.onnx -o no/x.html => 2 error[I100]: the folder to write to does not exist
report m.onnx --layer cnov -o x.html => 2 error[I100]: there is no layer 'cnov'
report m.onnx --chip b2000 -o x.html => 2 error[I100]: there is no chip 'b2000'
report b --dtype bf16 -o x.html => 2 error[I100]: a build folder holds the options that its layers were compiled with
report b --verify -o x.html => 2 --verify is for a model
report -o x.html => 2 expected a model, a build folder or --example, and one of them.
report broken/option -o x.html => 2 error[B100]: damaged: its options lead to no kernel: schedule must be one of
draw swizle 128B => 2 No such command 'swizle'. Did you mean 'swizzle'?
draw swizzle 12B => 2 error[I100]: expected a swizzle of none, 32B, 64B, 128B, got '12B'
draw swizzle 32B -o no/x.svg => 2 error[I100]: the folder to write to does not exist
draw swizzle 32B -o x.pdf => 2 expected FILE.svg, FILE.png, FILE.tex or - for stdout, got
draw swizzle 32B -o x.svg -o y.svg => 2 --output takes one value and is given twice.
draw mma-layout --kind f16 --m 96 --n 64 => 2 error[I100]: there is no tcgen05.mma of kind::f16 with M=96 and N=64
draw mma-layout --kind f61 --m 128 --n 64 => 2 error[I100]: expected a kind of tcgen05.mma, f16, tf32, f8f6f4, i8
draw mma-layout --kind f16 --m 128 --n 64 --k 24 => 2 error[I100]: expected k as a multiple of 16, what one instr
draw mma-layout --kind f16 --m 128 => 2 Missing option '--n'.
draw hmma --arch ampere => 2 error[I100]: expected an architecture of volta, turing, got 'ampere'
draw atom => 2 expected the name of an atom or --list
draw atom mma.m16n8k16 => 2 error[I100]: expected an atom such as mma.m16n8k16.f16, got 'mma.m16n8k16'
draw registers --shape 16x256b --num x64 => 2 error[I100]: expected a number of x1, x2, x4, x8, x16, x32 for 16x2
draw rasterization-order --grid 16 => 2 Invalid value for '--grid': expected tiles along M and along N, such as 16x12,
draw rasterization-order => 2 expected a model, whose layer has a grid, or --grid PxQ, and not both
draw rasterization-order --grid 4x4 --rasterization-order spiral => 2 error[I100]: expected an order of rows, columns
draw tile => 2 Missing argument 'MODEL|DIR'.
draw tile nope.onnx => 2 error[I100]: there is no such file or folder
draw tile two.onnx --s 1 => 2 error[I100]: there are 2 layers: choose one with --layer
draw tile m.onnx --s 3 => 2 error[I100]: there is no filter column 3
draw lanes m.onnx --tile 99 => 2 error[I100]: there is no tile 99
draw lanes m.onnx --r -1 => 2 Invalid value for '--r': -1 is not in the range x>=0.
draw passes k/kernel.ptx k/launch.json => 2 error[I100]: there are no passes to show: the kernel issues no tcgen05.mma
time k/kernel.ptx k/launch.json --passes => 2 error[I100]: there are no passes to show: the kernel issues no tcgen05.mma
draw passes m.onnx --target sm_90a => 2 error[I100]: there are no passes to show: the kernel issues no tcgen05.mma
draw operands m.onnx --target sm_90a => 2 error[I100]: the kernel issues no tcgen05.mma, whose operands are drawn
draw operands m.onnx --mma 999 => 2 error[I100]: there is no MMA 999
draw memory m.onnx -o m.onnx => 2 Invalid value for '-o' / '--output': expected FILE.svg, FILE.png, FILE.tex or - for
inspect b --timed => 2 error[I100]: a build folder holds the options that its layers were compiled with
time b --schedule slide => 2 error[I100]: a build folder holds the options that its layers were compiled with
compile m.onnx -o x --timed slide => 2 Got unexpected extra argument (slide)
draw memory b --schedule slide => 2 error[I100]: a build folder holds the options that its layers were compiled with
draw timeline two.onnx => 2 the picture is of one kernel: choose a layer with --layer, of stem, head
draw roofline k/kernel.ptx k/launch.json => 2 error[I100]: a roofline has layers of a model or of a build folder, and
draw passes k/kernel.ptx => 2 error[I100]: a kernel file needs its launch file
draw schedules m.onnx --chip b2000 => 2 error[I100]: there is no chip 'b2000'
draw descriptor 0xq => 2 error[I100]: expected a descriptor such as 0x8100490, got '0xq'
explain-descriptor => 2 Missing argument '0x...'.
explain-descriptor 0x100000000 --as instruction => 2 error[I100]: expected 32 bits for --as instruction, got 33 b
explain-descriptor 0x10 --kind f61 => 2 error[I100]: expected a kind of tcgen05.mma, f16, tf32, f8f6f4, i8, mxf8f6
explain-descriptor 0x10 --as matrix --kind f16 => 2 error[I100]: --kind is for an instruction descriptor, not for
explain-descriptor 0x10 --as tensormap => 2 error[I100]: expected 256 hexadecimal digits for a tensor map, 128 by
launch b --seed 1 --emit-host h.cu --compare --json - => 2 --emit-host launches nothing: leave --compare, --json o
launch b --seed 1 --emit-host h.cu --timeout 5 -o y.npy => 2 --emit-host launches nothing: leave --output, --timeout o
launch b --seed 1 --emit-host - => 2 buffers and programs go to files: only the report of --json can go to stdout (-).
launch b --seed 1 -o - => 2 buffers and programs go to files: only the report of --json can go to stdout (-).
launch b --seed 1 --emit-host filter.bin => 2 error[I100]: the contents of buffer 'filter' would overwrite the program
time k/kernel.ptx k/launch.json --batch 2 --layer x => 2 is no layer of a model: leave --layer, --batch out.
draw timeline k/kernel.ptx k/launch.json --schedule slide => 2 is no layer of a model: leave --schedule out.
draw rasterization-order --grid 4x4 --layer conv => 2 --grid is a grid without a layer: leave --layer out.
report --example --dtype f16 --verify -o x.html => 2 --example shows its own convolution: leave --verify, --dtype out.
probe --apply probed/right.json --chip b200 => 2 the answers name their GPU: leave --chip out: leave --chip out.
probe --apply probed/right.json -o - => 2 -o takes the name of a file: only the report of --json goes to stdout (-).
inspect m.onnx --layer conv --filter-row 1 => 2 --filter-row is for lanes: give --lanes or --svg too.
inspect --example --filter-row 1 => 2 --filter-row is for lanes: give --lanes or --svg too.
inspect m.onnx --layer conv --wide => 2 --wide is for the list of all layers: leave it out.
exec => 2 Missing argument 'KERNEL.ptx'.
exec k/kernel.ptx => 2 Missing argument 'LAUNCH.json'.
probe elect => 2 names of probes are for --run.
probe -o x.json => 2 -o goes with --run or --apply; a list goes to --json FILE.
probe --run --apply probed/right.json => 2 --run asks a GPU, --apply reads its answers: give one of them.
probe --run elekt => 2 error[I100]: there is no probe 'elekt'
probe --chip b20 => 2 error[I100]: there is no chip 'b20': expected one of b200, b300, h100, h200; did you mean b200?
probe --apply nope.json => 2 error[I100]: there is no such file or folder
probe --apply void => 2 error[I100]: cannot read it: Is a directory
probe --apply garbage.onnx => 2 error[I100]: it is no file of `convc probe --run`:
probe --apply k/list.json => 2 error[I100]: it is no file of `convc probe --run`: Expected `object`, got `array`
probe --apply probed/format.json => 2 error[I100]: it is no file of `convc probe --run`: Invalid enum value 'convc-prob
probe --apply probed/name.json => 2 error[I100]: there is no probe 'elekt'
probe --apply probed/target.json => 2 error[I100]: probe elect is for sm_90a and sm_100a, and the GPU is sm_90: got 'sm
probe --apply probed/hopper.json => 2 error[I100]: probe shift is for sm_100a, and the GPU is sm_90: got 'sm_90a'
probe --apply probed/arch.json => 2 error[I100]: probes are for sm_90 and sm_100, got answers of 'sm_120'
probe --apply probed/twice.json => 2 error[I100]: probe elect is there twice
probe --apply probed/size.json => 2 error[I100]: an answer of probe elect has 512 bytes, got 3
probe --apply probed/count.json => 2 error[I100]: probe elect has 1 launches, got answers of 0
probe --apply probed/base64.json => 2 error[I100]: an answer of probe elect is not base64
probe --apply probed/field.json => 2 error[I100]: it is no file of `convc probe --run`: Object contains unknown
probe --apply probed/device.json => 2 error[I100]: a name has at most 200 printable characters
probe --apply probed/right.json -o probed/right.json => 2 error[I100]: this would overwrite
time m.onnx --chip '' => 2 error[I100]: there is no chip '': expected one of b200, b300, h100, h200
time m.onnx --chip nope.toml => 2 error[I100]: there is no such file or folder
time m.onnx --chip probed/base.toml => 2 error[I100]: it is no file of parameters: Expected `str`, got `null`
time m.onnx --chip probed/chip.toml => 2 error[I100]: there is no chip 'h300': expected one of b200, b300, h100, h200
time m.onnx --chip probed/name.toml => 2 error[I100]: chip h200 has no parameter 'tma.full'; did you mean tma.fill?
time m.onnx --chip probed/unit.toml => 2 error[I100]: tma.fill is in B/clk, got 'clk'
time m.onnx --chip probed/value.toml => 2 error[I100]: tma.fill must be above 0 and below 1e+12, inside its range
time m.onnx --chip probed/nan.toml => 2 error[I100]: tma.fill must be above 0 and below 1e+12, inside its range
time m.onnx --chip probed/half.toml => 2 error[I100]: it is no file of parameters:
exec nope.ptx k/launch.json => 2 error[I100]: there is no such file or folder
exec k/kernel.ptx nope.json => 2 error[I100]: there is no such file or folder
exec k k/launch.json => 2 error[I100]: expected a text file here, this is a folder or a device
exec k/kernel.ptx k => 2 error[L100]: cannot read the launch file: Is a directory
exec k/launch.json k/kernel.ptx => 2 KERNEL.ptx comes first, then LAUNCH.json.
launch k/launch.json k/kernel.ptx => 2 KERNEL.ptx comes first, then LAUNCH.json.
time k/launch.json k/kernel.ptx => 2 KERNEL.ptx comes first, then LAUNCH.json.
exec m.onnx k/launch.json => 2 error[I100]: the text is not UTF-8: invalid start byte
exec k/kernel.ptx k/half.json => 2 error[L100]: not a launch file: Input data was truncated
exec k/kernel.ptx k/empty.json => 2 error[L100]: not a launch file: Input data was truncated
exec k/kernel.ptx k/list.json => 2 error[L100]: not a launch file: Expected `object`, got `array`
exec k/kernel.ptx k/binary.json => 2 error[L100]: not a launch file: JSON is malformed: invalid character (byte 0
exec k/kernel.ptx k/launch.json --json k/x.npy => 2 error[I100]: this would overwrite 'k/x.npy' of 'k/launch.json
exec k/kernel.ptx k/launch.json --switch elect=first => 2 error[I100]: switch elect must be one of lowest, highes
exec k/kernel.ptx k/launch.json --numerics half => 2 Invalid value for '--numerics': 'half' is not one of
exec k/kernel.ptx k/launch.json x.npy => 2 Got unexpected extra argument
exec k/kernel.ptx k/launch.json --layer conv => 2 No such option
exec k/kernel.ptx k/launch.json --json - --sarif - => 2 error[I100]: only one report can go to stdout (-)
exec k/typo.ptx k/launch.json => 2 error[P100]: unknown instruction 'fmma'
exec k/rounding.ptx k/launch.json => 2 error[P100]: .rx cannot follow 'fma': expected .rn, .rz, .rm or .rp
exec k/type.ptx k/launch.json => 2 error[P100]: .f33 cannot follow 'ld.global': expected .f32, .f64, .ca, .cg, .c
exec k/width.ptx k/launch.json => 2 error[P100]: operand 1 (d) of 'ld.global.f64' must be a .f64 or .b64 register
exec k/register.ptx k/launch.json => 2 error[P100]: register '%j' is not declared
exec k/special.ptx k/launch.json => 2 error[P100]: register '%ntid.q' is not declared
exec k/semicolon.ptx k/launch.json => 2 error[P100]: ';' is missing at the end of this instruction
exec k/brace.ptx k/launch.json => 2 error[P100]: the text ends inside a '{', '}' is missing
exec k/operands.ptx k/launch.json => 2 error[P100]: 'add.u64' takes 3 operands, got 2
exec k/label.ptx k/launch.json => 2 error[P100]: no label 'DONE' here
exec k/param.ptx k/launch.json => 2 error[P100]: 'm' is not declared
exec k/noversion.ptx k/launch.json => 2 error[P100]: a PTX file begins with .version, this one with '.target'
exec k/directive.ptx k/launch.json => 2 error[P100]: '.rug' is not a directive that a kernel's body may have
exec k/twice.ptx k/launch.json => 2 error[P100]: '%inside' is declared twice in this scope
exec k/cuda.ptx k/launch.json => 2 error[P100]: a PTX file begins with .version, this one with '__global__'
exec k/blank.ptx k/launch.json => 2 error[P100]: a PTX file begins with .version, this one with the end of the te
exec k/comment.ptx k/launch.json => 2 error[P100]: this comment is never closed: '*/' is missing
exec k/trap.ptx k/launch.json => 1 error[M100]: the kernel executed a trap
exec k/address.ptx k/launch.json => 1 error[M100]: access of 4 bytes at offset 4000 of buffer 'x', which has 4
exec k/misaligned.ptx k/launch.json => 1 error[M100]: a 4-byte access to buffer 'x' is not aligned to 4 bytes
exec k/hang.ptx k/launch.json => 1 error[M200]: the kernel hangs: no warp can continue
exec k/endless.ptx k/launch.json --max-instructions 9 => 1 error[M300]: the kernel did not end: a warp executed
exec k/endless.ptx k/launch.json --max-instructions 0 => 2 Invalid value for '--max-instructions': 0 is not in the
exec k/entry.ptx k/launch.json => 2 error[L100]: the launch file asks for entry 'saxpy', which k/entry.ptx does n
exec k/predicate.ptx k/launch.json => 2 error[P100]: expected a predicate register, '%i' is a .b32 register
exec k/immediate.ptx k/launch.json => 2 error[P100]: '4q' is not a number of at most 64 bits
exec k/kernel.ptx k/grid0.json => 2 error[L100]: grid.x must be in 1..2147483647, got 0
exec k/kernel.ptx k/grid2.json => 2 error[L100]: not a launch file: Expected `array` of length 3 - at `$.grid`
exec k/kernel.ptx k/gridtext.json => 2 error[L100]: not a launch file: Expected `array`, got `str` - at `$.grid`
exec k/kernel.ptx k/block.json => 2 error[L100]: block.x must be in 1..1024, got 2048
exec k/kernel.ptx k/blockneg.json => 2 error[L100]: block.x must be in 1..1024, got -1
exec k/kernel.ptx k/noblock.json => 2 error[L100]: not a launch file: Object missing required field `block`
exec k/kernel.ptx k/noentry.json => 2 error[L100]: not a launch file: Object missing required field `entry`
exec k/kernel.ptx k/otherentry.json => 2 error[L100]: the launch file asks for entry 'sxpy', which k/kernel.ptx d
exec k/kernel.ptx k/unknown.json => 2 error[L100]: not a launch file: Object contains unknown field `blocks`
exec k/kernel.ptx k/format.json => 2 error[L100]: expected format 'convc-launch/1', got 'convc-launch/9'
exec k/kernel.ptx k/shared.json => 2 error[L100]: shared_bytes must be in 0..232448 (227 KiB, the limit of sm_100
exec k/kernel.ptx k/sharedneg.json => 2 error[L100]: shared_bytes must be in 0..232448 (227 KiB, the limit of sm_
exec k/kernel.ptx k/cluster.json => 2 error[L100]: grid (8, 1, 1) must be a multiple of cluster (3, 1, 1), and a
exec k/kernel.ptx k/fewparams.json => 2 error[L100]: entry 'saxpy' has 4 parameters (x, y, a, n), the launch file
exec k/kernel.ptx k/manyparams.json => 2 error[L100]: entry 'saxpy' has 4 parameters (x, y, a, n), the launch fil
exec k/kernel.ptx k/nobuffer.json => 2 error[L100]: parameter 0 names buffer 'z', which the launch file does not
exec k/kernel.ptx k/kind.json => 2 error[L100]: not a launch file: Invalid value 'pointr' - at `$.params[0].kind`
exec k/kernel.ptx k/scalar.json => 2 error[L100]: parameter 3: unknown scalar type 'u33'
exec k/kernel.ptx k/value.json => 2 error[L100]: parameter 'n': -1 does not fit in u32
exec k/kernel.ptx k/text.json => 2 error[L100]: not a launch file: Expected `int | float`, got `str` - at `$.para
exec k/kernel.ptx k/width.json => 2 error[L100]: parameter 'n' has 4 bytes, the launch file gives 8
exec k/kernel.ptx k/order.json => 2 error[L100]: parameter 'x' has 8 bytes, the launch file gives 4
exec k/kernel.ptx k/dtype.json => 2 error[L100]: buffer 'x': unknown dtype 'float32'
exec k/kernel.ptx k/shape.json => 2 error[I100]: buffer 'x' takes float32 [999], the file holds float32 [1000]
exec k/kernel.ptx k/shapeneg.json => 2 error[L100]: buffer 'x': an extent of shape (-1,) is negative
exec k/kernel.ptx k/huge.json => 2 error[L100]: buffer 'x': shape (1099511627776,) of f32 takes 4398046511104 bytes
exec k/kernel.ptx k/missing.json => 2 error[I100]: there is no such file or folder
exec k/kernel.ptx k/outside.json => 2 error[L100]: buffer 'y' must be saved inside the launch file's folder, got
exec k/kernel.ptx k/over.json => 2 error[I100]: this would overwrite 'k/x.npy' of 'k/over.json', which is read he
exec k/kernel.ptx k/savedir.json => 2 error[I100]: the folder to write to does not exist
exec k/kernel.ptx k/small.json => 1 error[M100]: access of 4 bytes at offset 40 of buffer 'x', which has 40 byt
explain Z999 => 2 error[I100]: there is no code 'Z999'
explain P100 Z999 => 2 error[I100]: there is no code 'Z999'
explain P10 => 2 error[I100]: there is no code 'P10'
explain race-tensor => 2 error[I100]: there is no code 'race-tensor'
explain --schema convc-chek/1 => 2 error[I100]: there is no format 'convc-chek/1'
explain P100 --schema convc-check/1 => 2 --schema prints a schema and nothing else: leave CODE and --json out.
explain --json no/e.json => 2 error[I100]: the folder to write to does not exist
"""
"""A row: the words after ``convc``, the exit code, and a part of what is said."""


def parsed() -> list[tuple[str, int, str]]:
    rows = []
    for line in ROWS.strip().splitlines():
        call, _, rest = line.partition(" => ")
        code, _, part = rest.partition(" ")
        rows.append((call, int(code), part))
    return rows


@pytest.fixture(scope="module")
def field(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    mistakes.fill(folder)
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Name, size and time of all that is in a folder; `Path.rglob` takes five times as long."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            found[entry.path] = (status.st_size, status.st_mtime_ns)
            if entry.is_dir(follow_symlinks=False):
                found |= snapshot(Path(entry.path))
    return found


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("call", "code", "part"), parsed(), ids=[call for call, _, _ in parsed()])
def test_a_mistake_is_a_sentence(convc, field, monkeypatch, call, code, part):
    monkeypatch.chdir(field)
    before = snapshot(field)
    result = convc(*shlex.split(call))
    assert result.exit_code == code, result.output
    assert part in result.stderr
    if "--json - " in f"{call} ":
        assert json.loads(result.stdout)["message"] in result.stderr, "a program is told what people are"
    else:
        assert result.stdout == ""
    assert snapshot(field) == before, "nothing is left behind"
    if part.startswith("error["):
        words = [word.strip("-'") for word in re.split(r"[ =]", call)[1:]]
        named = any(word in result.stderr for word in words) or "where: k" in result.stderr
        assert named, "what is wrong is named: an argument, or a file that a launch file names"


def test_there_are_many_rows():
    calls = [call for call, _, _ in parsed()]
    assert len(set(calls)) == len(calls) >= 205
    used = " ".join(calls).split()
    assert {f"k/{name}.ptx" for name in mistakes.PTX} | {f"k/{name}.json" for name in mistakes.LAUNCH} <= set(used)


# ---- the shell's side: streams that are closed or full, places that are not there -------------------------------


def shell(line: str, folder: Path, **options) -> subprocess.CompletedProcess:
    """Run a line of bash in which ``convc`` is this convc."""
    text = f'convc() {{ {shlex.quote(sys.executable)} -m convc "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False, timeout=120, **options
    )


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        ("convc verify nope.onnx >&-", 2, "error[I100]"),
        ("convc verify nope.onnx 2>&-", 2, ""),
        ("convc explain P100 >&-", 0, ""),
        ("convc explain P100 <&- 2>&-", 0, ""),
        ("convc verify - <&-", 2, "expected a model on stdin (-), which is closed"),
        ("convc explain > /dev/full", 2, "No space left on device"),
        ("convc explain --json - > /dev/full", 2, "No space left on device"),
        ("convc --help > /dev/full", 2, "No space left on device"),
        ("set -o pipefail; convc --help | sleep 0", 141, ""),
        ("convc frobnicate 2> /dev/full", 2, ""),
        ("mkdir gone_place && cd gone_place && rmdir ../gone_place && convc verify ../m.onnx --layer no", 2, "error["),
        ("CONVC_CACHE=notes.txt convc verify m.onnx", 2, "CONVC_CACHE"),
        ("CONVC_PTXAS=nope convc compile m.onnx -o new --assemble", 2, "error[T100]"),
        ("convc verify m.onnx --json $'r\\xff.json'", 2, "the name is not valid UTF-8"),
    ],
)
def test_a_mistake_in_a_shell(field, line, code, part):
    before = set(snapshot(field))
    done = shell(line, field)
    assert done.returncode == code, done.stderr
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert set(snapshot(field)) == before


def test_a_limit_of_the_size_of_files(field, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    # Nor may the interpreter cut the files short that it keeps of modules.
    line = f"PYTHONDONTWRITEBYTECODE=1 convc explain --json {tmp_path}/e.json"
    done = shell(line, field, preexec_fn=limit)
    assert done.returncode == 2
    assert "cannot write the file: File too large" in done.stderr
    assert os.listdir(tmp_path) == []
