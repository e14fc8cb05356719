// SPDX-License-Identifier: Apache-2.0
#include "messages/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "messages/json_reader.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

// Index argument of Writer::scalar for a field that is not repeated.
constexpr int kSingular = -1;

class MessageWriter {
 public:
  explicit MessageWriter(JsonStyle style) : pretty_(style == JsonStyle::pretty) {}

  void object(const Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    open('{');
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      key(field.json_name());
      if (field.is_map()) {
        map(message, field);
      } else if (field.is_repeated()) {
        list(message, field);
      } else {
        value(message, field, kSingular);
      }
    }
    close('}');
  }

  std::string take() && {
    if (pretty_) out_ += '\n';
    return std::move(out_);
  }

 private:
  void list(const Message& message, const FieldDescriptor& field) {
    open('[');
    const int size = message.GetReflection()->FieldSize(message, &field);
    for (int i = 0; i < size; ++i) {
      separate();
      value(message, field, i);
    }
    close(']');
  }

  // A map is an unordered repeated message; its entries are sorted, so that equal messages have
  // equal JSON.
  void map(const Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    std::vector<std::pair<std::string, const Message*>> entries;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
      entries.emplace_back(entry.GetReflection()->GetString(entry, &key_field), &entry);
    }
    std::sort(entries.begin(), entries.end());
    open('{');
    for (const auto& [name, entry] : entries) {
      key(name);
      value(*entry, *field.message_type()->map_value(), kSingular);
    }
    close('}');
  }

  void value(const Message& message, const FieldDescriptor& field, int index) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return scalar(message, field, index);
    const Reflection& reflection = *message.GetReflection();
    const Message& child = index == kSingular
                               ? reflection.GetMessage(message, &field)
                               : reflection.GetRepeatedMessage(message, &field, index);
    if (child.GetDescriptor() == Timestamp::descriptor()) {
      // RFC 3339 in UTC, as in protobuf's mapping.
      return text(google::protobuf::util::TimeUtil::ToString(
          *google::protobuf::DynamicCastToGenerated<Timestamp>(&child)));
    }
    object(child);
  }

  void scalar(const Message& message, const FieldDescriptor& field, int index) {
    const Reflection& from = *message.GetReflection();
    const bool one = index == kSingular;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        out_ += (one ? from.GetBool(message, &field) : from.GetRepeatedBool(message, &field, index))
                    ? "true"
                    : "false";
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        return number(one ? from.GetInt32(message, &field)
                          : from.GetRepeatedInt32(message, &field, index));
      case FieldDescriptor::CPPTYPE_UINT32:
        return number(one ? from.GetUInt32(message, &field)
                          : from.GetRepeatedUInt32(message, &field, index));
      case FieldDescriptor::CPPTYPE_INT64:
        return number(one ? from.GetInt64(message, &field)
                          : from.GetRepeatedInt64(message, &field, index));
      case FieldDescriptor::CPPTYPE_UINT64:
        return number(one ? from.GetUInt64(message, &field)
                          : from.GetRepeatedUInt64(message, &field, index));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return real(one ? from.GetFloat(message, &field)
                        : from.GetRepeatedFloat(message, &field, index));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return real(one ? from.GetDouble(message, &field)
                        : from.GetRepeatedDouble(message, &field, index));
      case FieldDescriptor::CPPTYPE_ENUM:
        return text(enum_word(one ? *from.GetEnum(message, &field)
                                  : *from.GetRepeatedEnum(message, &field, index)));
      case FieldDescriptor::CPPTYPE_STRING:
        return text(one ? from.GetString(message, &field)
                        : from.GetRepeatedString(message, &field, index));
      case FieldDescriptor::CPPTYPE_MESSAGE: return;  // value() has taken these
    }
  }

  template <typename Number>
  void number(Number n) {
    char digits[48];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), n).ptr;
    out_.append(digits, end);
  }

  // The shortest form that parses to the same value.
  template <typename Real>
  void real(Real r) {
    if (std::isnan(r)) return text("NaN");
    if (std::isinf(r)) return text(r < 0 ? "-Infinity" : "Infinity");
    number(r);
  }

  void text(std::string_view raw) {
    static constexpr char kHex[] = "0123456789abcdef";
    out_ += '"';
    const std::string valid = text::to_utf8(raw);
    for (std::size_t i = 0; i < valid.size(); ++i) {
      const char c = valid[i];
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (c == '\n') {
        out_ += "\\n";
      } else if (c == '\t') {
        out_ += "\\t";
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        out_ += "\\u00";
        out_ += kHex[static_cast<unsigned char>(c) >> 4];
        out_ += kHex[static_cast<unsigned char>(c) & 15];
      } else if (c == '\xc2' && static_cast<unsigned char>(valid[i + 1]) < 0xa0) {
        // C1 controls, which terminals execute: their code is the second byte.
        out_ += "\\u00";
        out_ += kHex[static_cast<unsigned char>(valid[i + 1]) >> 4];
        out_ += kHex[static_cast<unsigned char>(valid[i + 1]) & 15];
        ++i;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  void key(std::string_view name) {
    separate();
    text(name);
    out_ += pretty_ ? ": " : ":";
  }

  // Before each element: the comma after the previous one, and a line break.
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
    new_line();
  }

  void open(char bracket) {
    out_ += bracket;
    ++depth_;
    first_ = true;
  }

  void close(char bracket) {
    --depth_;
    if (!first_) new_line();
    first_ = false;
    out_ += bracket;
  }

  void new_line() {
    if (pretty_) out_.append("\n").append(2 * depth_, ' ');
  }

  const bool pretty_;
  std::string out_;
  std::size_t depth_ = 0;
  bool first_ = true;  // true until something is written inside the innermost bracket
};

}  // namespace

std::string to_json(const Message& message, JsonStyle style) {
  MessageWriter writer(style);
  writer.object(message);
  return std::move(writer).take();
}

Result<void> from_json(std::string_view json, Message& message) {
  std::string padded;
  padded.reserve(json.size() + JsonReader::kPadding);
  padded.append(json).append(JsonReader::kPadding, ' ');
  const std::string_view text = std::string_view(padded).substr(0, json.size());
  JsonReader reader;
  const auto read = reader.read(text, message);
  if (read) return {};
  const std::string_view before = text.substr(0, reader.error_offset());
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return read.error().in(std::to_string(line) + ":" + std::to_string(column));
}

std::string enum_word(const google::protobuf::EnumValueDescriptor& value) {
  std::string word = value.name();
  for (char& c : word) {
    if (c == '_') {
      c = '-';
    } else if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return word;
}

}  // namespace forestall::messages
