#include "ding_worker/policy/torch/cnn_structure.h"

#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

// Larger numbers are a mistake in a config; the limit prevents overflows in products.
constexpr int64_t kMaxChannels = int64_t{1} << 16;
constexpr int64_t kMaxKernel = int64_t{1} << 10;
constexpr int64_t kMaxWeights = int64_t{1} << 31;  // of one convolution
// The pictures before and after all convolutions have so many floats at most (1 GiB): an actor
// allocates them at once.
constexpr int64_t kMaxPictureFloats = int64_t{1} << 28;
// Actors pad channels to a multiple of this number.
constexpr int64_t kChannelBlock = 16;

bool IsPicture(const FieldSpec& field) {
  return field.shape.size() == 3 &&
         (field.dtype == DType::kUint8 || field.dtype == DType::kFloat32);
}

void CheckRange(absl::string_view what, int64_t value, int64_t low, int64_t high,
                std::vector<std::string>* problems) {
  if (value >= low && value <= high) return;
  problems->push_back(absl::StrCat(what, " is ", value, "; it must be in ", low, "..", high));
}

void CheckOptions(const CnnOptions& options, std::vector<std::string>* problems) {
  if (options.conv.empty()) problems->push_back("there is no conv; at least one is needed");
  for (size_t i = 0; i < options.conv.size(); ++i) {
    const ConvOptions& conv = options.conv[i];
    const std::string where = absl::StrCat("conv[", i, "].");
    CheckRange(absl::StrCat(where, "channels"), conv.channels, 1, kMaxChannels, problems);
    CheckRange(absl::StrCat(where, "kernel"), conv.kernel, 1, kMaxKernel, problems);
    CheckRange(absl::StrCat(where, "stride"), conv.stride, 1, kMaxKernel, problems);
    if (conv.kernel < 1) continue;
    // Otherwise a window could contain zeros only.
    CheckRange(absl::StrCat(where, "padding"), conv.padding, 0, conv.kernel - 1, problems);
  }
}

void CheckFields(const Spec& input, std::vector<std::string>* problems) {
  bool has_picture = false;
  for (const FieldSpec& field : input.fields()) {
    has_picture = has_picture || IsPicture(field);
    if (IsPicture(field) || field.dtype == DType::kFloat32) continue;
    problems->push_back(absl::StrCat(
        "input '", field.name, "' is ", field.DebugString(),
        "; a CNN reads pictures, uint8 or float32 [channels, rows, columns], and float32 vectors",
        field.is_discrete() ? ": the env wrapper 'one_hot' encodes categories" : ""));
  }
  if (has_picture || !problems->empty()) return;
  problems->push_back(
      absl::StrCat("no input is a picture, uint8 or float32 [channels, rows, columns]; found\n",
                   input.DebugString(), "\nfor vectors use network 'mlp'"));
}

// Returns the product; a number above `most` if it is larger than that. All factors are at least 1.
int64_t ProductUpTo(int64_t most, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    product = CheckedProduct(product, factor).value_or(most + 1);
    if (product > most) return most + 1;
  }
  return product;
}

// Adds the floats of a picture to `*sum`; appends a problem if these are too many.
void CountPicture(const FieldSpec& field, absl::string_view which, const Shape& shape, int64_t* sum,
                  std::vector<std::string>* problems) {
  const bool too_many = *sum > kMaxPictureFloats;
  const int64_t channels = (shape[0] + kChannelBlock - 1) / kChannelBlock * kChannelBlock;
  *sum += ProductUpTo(kMaxPictureFloats, {channels, shape[1], shape[2]});
  if (*sum <= kMaxPictureFloats || too_many) return;
  problems->push_back(absl::StrCat("input '", field.name, "' ", field.DebugString(), ": ", which,
                                   " is a picture of ", absl::StrJoin(shape, " x "),
                                   ", with which all pictures have more than ", kMaxPictureFloats,
                                   " floats (channels are padded to a multiple of ", kChannelBlock,
                                   "), expected smaller pictures or larger strides"));
}

// Makes the convolutions of a picture; appends a problem if a kernel is larger than its input.
std::vector<ConvLayer> MakeConvolutions(const CnnOptions& options, const FieldSpec& field,
                                        absl::string_view prefix, int64_t* picture_floats,
                                        std::vector<std::string>* problems) {
  std::vector<ConvLayer> layers;
  Shape shape = field.shape;
  CountPicture(field, "it", shape, picture_floats, problems);
  for (size_t i = 0; i < options.conv.size(); ++i) {
    const ConvOptions& conv = options.conv[i];
    const int64_t rows = shape[1] + 2 * conv.padding;
    const int64_t columns = shape[2] + 2 * conv.padding;
    if (conv.kernel > rows || conv.kernel > columns) {
      problems->push_back(absl::StrCat("input '", field.name, "' ", field.DebugString(), ": conv[",
                                       i, "] has kernel ", conv.kernel, ", larger than the ", rows,
                                       " x ", columns, " picture",
                                       i == 0 ? "" : absl::StrCat(" that conv[", i - 1, "] leaves"),
                                       conv.padding == 0 ? "" : " with its padding"));
      return {};
    }
    if (ProductUpTo(kMaxWeights, {conv.channels, shape[0], conv.kernel, conv.kernel}) >
        kMaxWeights) {
      problems->push_back(absl::StrCat("input '", field.name, "' ", field.DebugString(), ": conv[",
                                       i, "] has ", conv.channels, " x ", shape[0], " x ",
                                       conv.kernel, " x ", conv.kernel, " weights; at most ",
                                       kMaxWeights, " are supported"));
      return {};
    }
    ConvLayer layer;
    layer.name = absl::StrCat(prefix, "conv/", i);
    layer.options = conv;
    layer.in = shape;
    layer.out = {conv.channels, (rows - conv.kernel) / conv.stride + 1,
                 (columns - conv.kernel) / conv.stride + 1};
    shape = layer.out;
    CountPicture(field, absl::StrCat("the output of conv[", i, "]"), shape, picture_floats,
                 problems);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

std::string CnnStructure::Architecture() const {
  std::string text;
  for (const std::vector<ConvLayer>& layers : conv) {
    if (layers.empty()) continue;
    absl::StrAppend(&text, absl::StrJoin(layers.front().in, "x"));
    for (const ConvLayer& layer : layers)
      absl::StrAppend(&text, "-", absl::StrJoin(layer.out, "x"));
    absl::StrAppend(&text, ", ");
  }
  return absl::StrCat(text, "mlp ", mlp.Architecture());
}

absl::StatusOr<CnnStructure> MakeCnnStructure(const CnnOptions& options, const SpecPtr& input,
                                              const SpecPtr& output) {
  std::vector<std::string> problems;
  CheckOptions(options, &problems);
  CheckFields(*input, &problems);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "CNN"));

  int pictures = 0;
  int64_t picture_floats = 0;
  for (const FieldSpec& field : input->fields()) pictures += IsPicture(field) ? 1 : 0;
  CnnStructure structure;
  std::vector<FieldSpec> features;  // the inputs of the MLP
  for (const FieldSpec& field : input->fields()) {
    std::vector<ConvLayer> layers;
    if (IsPicture(field)) {
      layers = MakeConvolutions(options, field,
                                pictures == 1 ? std::string() : absl::StrCat(field.name, "/"),
                                &picture_floats, &problems);
    }
    features.push_back(Box(field.name, layers.empty() ? field.shape : layers.back().out));
    structure.conv.push_back(std::move(layers));
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "CNN"));
  DING_ASSIGN_OR_RETURN(const SpecPtr mlp_input, MakeSpec(std::move(features)));
  DING_RETURN_IF_ERROR(RefuseNormalization(options.mlp, "network 'torch_cnn'"));
  DING_ASSIGN_OR_RETURN(structure.mlp, MakeMlpStructure(options.mlp, mlp_input, output));
  return structure;
}

}  // namespace ding
