// SPDX-License-Identifier: Apache-2.0
// Pods as declared.
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "model/pod.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

v1::ResourceList to_proto(const ResourceList& list) {
  v1::ResourceList out;
  if (list.cpu) out.set_cpu(list.cpu->text());
  if (list.memory) out.set_memory(list.memory->text());
  if (list.ephemeral_storage) out.set_ephemeral_storage(list.ephemeral_storage->text());
  return out;
}

v1::PodContainer to_proto(const PodContainer& container) {
  v1::PodContainer out;
  out.set_name(text::to_utf8(container.name));
  out.set_id(text::to_utf8(container.id));
  if (container.requests != ResourceList{}) *out.mutable_requests() = to_proto(container.requests);
  if (container.limits != ResourceList{}) *out.mutable_limits() = to_proto(container.limits);
  out.set_restartable(container.restartable);
  return out;
}

v1::PodVolume to_proto(const PodVolume& volume) {
  v1::PodVolume out;
  out.set_name(text::to_utf8(volume.name));
  out.set_kind(to_enum<v1::PodVolume::Kind>(volume.kind));
  out.set_in_memory(volume.in_memory);
  out.set_default_medium(volume.default_medium);
  if (volume.size_limit) out.set_size_limit(volume.size_limit->text());
  return out;
}

v1::Toleration to_proto(const Toleration& toleration) {
  v1::Toleration out;
  out.set_key(text::to_utf8(toleration.key));
  out.set_operator_(text::to_utf8(toleration.operator_));
  out.set_value(text::to_utf8(toleration.value));
  out.set_effect(text::to_utf8(toleration.effect));
  return out;
}

v1::PodAnnotations to_proto(const PodAnnotations& annotations) {
  v1::PodAnnotations out;
  if (annotations.is_protected) out.set_protected_(text::to_utf8(*annotations.is_protected));
  if (annotations.prefer) out.set_prefer(text::to_utf8(*annotations.prefer));
  if (annotations.avoid) out.set_avoid(text::to_utf8(*annotations.avoid));
  return out;
}

// A longer value has no meaning, whatever it begins with; its head is at least as long as any value
// that has one.
std::string bounded(const std::string& value) {
  return value.substr(0, PodAnnotations::kValueMax);
}

PodAnnotations from_proto(const v1::PodAnnotations& message) {
  PodAnnotations annotations;
  if (message.has_protected_()) annotations.is_protected = bounded(message.protected_());
  if (message.has_prefer()) annotations.prefer = bounded(message.prefer());
  if (message.has_avoid()) annotations.avoid = bounded(message.avoid());
  return annotations;
}

Result<Quantity> quantity(std::string_view field, const std::string& text) {
  Result<Quantity> parsed = parse_quantity(text);
  if (!parsed) return error(std::string(field) + ": '" + text + "': " + parsed.error().message);
  return parsed;
}

Result<ResourceList> from_proto(const v1::ResourceList& message) {
  ResourceList list;
  if (message.has_cpu()) list.cpu = TRY(quantity("cpu", message.cpu()));
  if (message.has_memory()) list.memory = TRY(quantity("memory", message.memory()));
  if (message.has_ephemeral_storage()) {
    list.ephemeral_storage = TRY(quantity("ephemeralStorage", message.ephemeral_storage()));
  }
  return list;
}

Result<PodContainer> from_proto(const v1::PodContainer& message) {
  PodContainer container;
  container.name = message.name();
  container.id = message.id();
  if (message.has_requests()) {
    container.requests = TRY(inside("requests", from_proto(message.requests())));
  }
  if (message.has_limits()) {
    container.limits = TRY(inside("limits", from_proto(message.limits())));
  }
  container.restartable = message.restartable();
  return container;
}

Result<PodVolume> from_proto(const v1::PodVolume& message) {
  PodVolume volume;
  volume.name = message.name();
  volume.kind =
      TRY(from_enum_or(message.kind(), v1::PodVolume::Kind_MAX, "kind", VolumeKind::other));
  volume.in_memory = message.in_memory();
  volume.default_medium =
      message.has_default_medium() ? message.default_medium() : !message.in_memory();
  if (message.has_size_limit()) {
    volume.size_limit = TRY(quantity("sizeLimit", message.size_limit()));
  }
  return volume;
}

Result<Toleration> from_proto(const v1::Toleration& message) {
  return Toleration{message.key(), message.operator_(), message.value(), message.effect()};
}

// Everything of a pod except its lists.
Result<Pod> facts_of(const v1::Pod& message) {
  Pod pod;
  pod.uid = message.uid();
  pod.name = message.name();
  pod.pod_namespace = message.namespace_();
  pod.origin = TRY(from_enum_or(message.origin(), v1::Pod::Origin_MAX, "origin", PodOrigin::api));
  pod.config_hash = message.config_hash();
  pod.phase = TRY(from_enum_or(message.phase(), v1::Pod::Phase_MAX, "phase", PodPhase::unknown));
  pod.terminating = message.terminating();
  if (message.has_priority()) pod.priority = message.priority();
  pod.priority_class = message.priority_class();
  if (message.has_status_qos()) {
    pod.status_qos = parse_qos_class(message.status_qos());
    if (!pod.status_qos) return error("statusQos: unknown '" + message.status_qos() + "'");
  }
  if (message.has_termination_grace_ns()) {
    pod.termination_grace = Duration(message.termination_grace_ns());
  }
  if (message.has_requests()) {
    pod.requests = TRY(inside("requests", from_proto(message.requests())));
  }
  if (message.has_limits()) pod.limits = TRY(inside("limits", from_proto(message.limits())));
  if (message.has_overhead()) {
    pod.overhead = TRY(inside("overhead", from_proto(message.overhead())));
  }
  return pod;
}

}  // namespace

v1::Pod to_proto(const Pod& pod) {
  v1::Pod out;
  out.set_uid(text::to_utf8(pod.uid));
  out.set_name(text::to_utf8(pod.name));
  out.set_namespace_(text::to_utf8(pod.pod_namespace));
  out.set_origin(to_enum<v1::Pod::Origin>(pod.origin));
  out.set_config_hash(text::to_utf8(pod.config_hash));
  out.set_phase(to_enum<v1::Pod::Phase>(pod.phase));
  out.set_terminating(pod.terminating);
  if (pod.priority) out.set_priority(*pod.priority);
  out.set_priority_class(text::to_utf8(pod.priority_class));
  if (pod.status_qos) out.set_status_qos(std::string(to_string(*pod.status_qos)));
  if (pod.termination_grace) out.set_termination_grace_ns(pod.termination_grace->count());
  if (pod.requests) *out.mutable_requests() = to_proto(*pod.requests);
  if (pod.limits) *out.mutable_limits() = to_proto(*pod.limits);
  if (pod.overhead != ResourceList{}) *out.mutable_overhead() = to_proto(pod.overhead);
  for (const PodContainer& container : pod.init_containers) {
    *out.add_init_containers() = to_proto(container);
  }
  for (const PodContainer& container : pod.containers) *out.add_containers() = to_proto(container);
  for (const PodVolume& volume : pod.volumes) *out.add_volumes() = to_proto(volume);
  for (const Toleration& toleration : pod.tolerations) {
    *out.add_tolerations() = to_proto(toleration);
  }
  if (pod.annotations != PodAnnotations{}) {
    *out.mutable_annotations() = to_proto(pod.annotations);
  }
  return out;
}

Result<Pod> from_proto(const v1::Pod& message) {
  Pod pod = TRY(facts_of(message));
  const auto container = [](const v1::PodContainer& each) { return from_proto(each); };
  TRY(read_each(message.init_containers(), pod.init_containers, "initContainers", container));
  TRY(read_each(message.containers(), pod.containers, "containers", container));
  TRY(read_each(message.volumes(), pod.volumes, "volumes",
                [](const v1::PodVolume& each) { return from_proto(each); }));
  TRY(read_each(message.tolerations(), pod.tolerations, "tolerations",
                [](const v1::Toleration& each) { return from_proto(each); }));
  pod.annotations = from_proto(message.annotations());
  return pod;
}

}  // namespace forestall::messages
