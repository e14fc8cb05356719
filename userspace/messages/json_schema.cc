// SPDX-License-Identifier: Apache-2.0
#include "messages/json_schema.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "messages/json.h"

namespace forestall::messages {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// 'kill-in-flight' and 'Kill_In_Flight' -> 'KILL_IN_FLIGHT'.
char as_constant(char c) {
  if (c == '-') return '_';
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// All requested types, and the types they contain.
class Types {
 public:
  const JsonMessage& of(const Descriptor& type) {
    const std::lock_guard lock(mutex_);
    return add(type);
  }

 private:
  const JsonMessage& add(const Descriptor& type) {
    auto& entry = messages_[&type];
    if (entry) return *entry;
    entry = std::make_unique<JsonMessage>();
    JsonMessage& message = *entry;
    if (type.field_count() > static_cast<int>(JsonMessage::kFieldsMax)) std::abort();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      message.fields.push_back(describe(field));
      message.keys.push_back(field.json_name());
      message.by_key.emplace(field.json_name(), message.fields.size() - 1);
      message.by_key.emplace(field.name(), message.fields.size() - 1);
    }
    return message;
  }

  JsonField describe(const FieldDescriptor& field) {
    JsonField described;
    described.field = &field;
    described.excludes_others = field.real_containing_oneof() != nullptr;
    const FieldDescriptor* value = &field;
    if (field.is_map()) {
      described.form = JsonField::Form::map;
      if (field.message_type()->map_key()->type() != FieldDescriptor::TYPE_STRING) std::abort();
      value = field.message_type()->map_value();
    }
    if (value->type() == FieldDescriptor::TYPE_BYTES ||
        value->type() == FieldDescriptor::TYPE_GROUP) {
      std::abort();
    }
    if (value->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      described.words = &add(*value->enum_type());
    } else if (value->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const bool is_time = value->message_type() == google::protobuf::Timestamp::descriptor();
      if (!field.is_map()) {
        described.form = is_time ? JsonField::Form::timestamp : JsonField::Form::message;
      }
      if (!is_time) described.message = &add(*value->message_type());
    }
    return described;
  }

  const JsonWords& add(const EnumDescriptor& type) {
    auto& entry = words_[&type];
    if (!entry) entry = std::make_unique<JsonWords>(type);
    return *entry;
  }

  std::mutex mutex_;
  std::unordered_map<const Descriptor*, std::unique_ptr<JsonMessage>> messages_;
  std::unordered_map<const EnumDescriptor*, std::unique_ptr<JsonWords>> words_;
};

}  // namespace

JsonWords::JsonWords(const EnumDescriptor& type) {
  for (int i = 0; i < type.value_count(); ++i) {
    std::string constant = type.value(i)->name();
    std::transform(constant.begin(), constant.end(), constant.begin(), as_constant);
    constants_.emplace_back(std::move(constant), type.value(i)->number());
    if (type.value(i)->number() != 0) words_.push_back(enum_word(*type.value(i)));
  }
}

std::optional<int> JsonWords::find(std::string_view word) const {
  for (const auto& [constant, number] : constants_) {
    const auto equal = [](char a, char b) { return a == as_constant(b); };
    if (std::equal(constant.begin(), constant.end(), word.begin(), word.end(), equal)) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> JsonMessage::find(std::string_view key, std::size_t next) const {
  if (next < keys.size() && keys[next] == key) return next;
  const auto found = by_key.find(key);
  if (found == by_key.end()) return std::nullopt;
  return found->second;
}

const JsonMessage& json_message(const Descriptor& type) {
  static Types types;
  return types.of(type);
}

}  // namespace forestall::messages
