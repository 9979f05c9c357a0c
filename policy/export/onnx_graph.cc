#include "ding_worker/policy/export/onnx_graph.h"

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 13;
// AttributeProto.AttributeType.
constexpr int64_t kIntAttribute = 2;
constexpr int64_t kIntsAttribute = 7;

// Append a field of a protobuf message (https://protobuf.dev/programming-guides/encoding).
void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendInt(int field, int64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3, out);
  AppendVarint(static_cast<uint64_t>(value), out);
}

void AppendBytes(int field, absl::string_view bytes, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(bytes.size(), out);
  absl::StrAppend(out, bytes);
}

// A ValueInfoProto [B, ...shape].
std::string ValueInfo(const std::string& name, OnnxGraph::Type type,
                      absl::Span<const int64_t> shape) {
  std::string batch;
  AppendBytes(2, "B", &batch);
  std::string dimensions;
  AppendBytes(1, batch, &dimensions);
  for (const int64_t extent : shape) {
    std::string dimension;
    AppendInt(1, extent, &dimension);
    AppendBytes(1, dimension, &dimensions);
  }
  std::string tensor;
  AppendInt(1, type, &tensor);
  AppendBytes(2, dimensions, &tensor);
  std::string type_proto;
  AppendBytes(1, tensor, &type_proto);
  std::string info;
  AppendBytes(1, name, &info);
  AppendBytes(2, type_proto, &info);
  return info;
}

template <typename T>
absl::string_view BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

void OnnxGraph::AddInput(const std::string& name, Type type, absl::Span<const int64_t> shape) {
  AppendBytes(11, ValueInfo(name, type, shape), &inputs_);
}

void OnnxGraph::AddOutput(const std::string& name, Type type, absl::Span<const int64_t> shape) {
  AppendBytes(12, ValueInfo(name, type, shape), &outputs_);
}

std::string OnnxGraph::NextName() { return absl::StrCat("_", names_++); }

std::string OnnxGraph::Add(absl::string_view op, const Names& inputs,
                           const std::vector<Attribute>& attributes, const std::string& output) {
  std::string name = output.empty() ? NextName() : output;
  AddNode(op, inputs, {name}, attributes);
  return name;
}

OnnxGraph::Names OnnxGraph::AddSplit(const std::string& input, const std::vector<int64_t>& sizes) {
  Names outputs;
  for (size_t i = 0; i < sizes.size(); ++i) outputs.push_back(NextName());
  AddNode("Split", {input, Integers(sizes)}, outputs, {Int("axis", 1)});
  return outputs;
}

void OnnxGraph::AddNode(absl::string_view op, const Names& inputs, const Names& outputs,
                        const std::vector<Attribute>& attributes) {
  std::string node;
  for (const std::string& name : inputs) AppendBytes(1, name, &node);
  for (const std::string& name : outputs) AppendBytes(2, name, &node);
  AppendBytes(4, op, &node);
  for (const Attribute& attribute : attributes) {
    std::string proto;
    AppendBytes(1, attribute.name, &proto);
    for (const int64_t value : attribute.ints) AppendInt(attribute.is_list ? 8 : 3, value, &proto);
    AppendInt(20, attribute.is_list ? kIntsAttribute : kIntAttribute, &proto);
    AppendBytes(5, proto, &node);
  }
  AppendBytes(1, node, &nodes_);
}

std::string OnnxGraph::AddTensor(Type type, absl::string_view bytes,
                                 absl::Span<const int64_t> shape) {
  std::string name = NextName();
  std::string tensor;
  for (const int64_t extent : shape) AppendInt(1, extent, &tensor);
  AppendInt(2, type, &tensor);
  AppendBytes(8, name, &tensor);
  AppendBytes(9, bytes, &tensor);
  AppendBytes(5, tensor, &constants_);
  return name;
}

std::string OnnxGraph::Floats(absl::Span<const float> values, absl::Span<const int64_t> shape) {
  return AddTensor(kFloat, BytesOf(values), shape);
}

std::string OnnxGraph::Doubles(absl::Span<const double> values, absl::Span<const int64_t> shape) {
  return AddTensor(kDouble, BytesOf(values), shape);
}

std::string OnnxGraph::Integers(absl::Span<const int64_t> values) {
  return AddTensor(kInt64, BytesOf(values), {static_cast<int64_t>(values.size())});
}

std::string OnnxGraph::Encode() const {
  std::string graph = nodes_;
  AppendBytes(2, "policy", &graph);
  absl::StrAppend(&graph, constants_, inputs_, outputs_);
  std::string opset;
  AppendBytes(1, "", &opset);
  AppendInt(2, kOpset, &opset);
  std::string model;
  AppendInt(1, kIrVersion, &model);
  AppendBytes(2, "ding_worker", &model);
  AppendBytes(7, graph, &model);
  AppendBytes(8, opset, &model);
  return model;
}

}  // namespace ding
