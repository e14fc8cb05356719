// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_event.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "kubernetes/api_status.h"
#include "kubernetes/url.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

// The API server's own limit for notes of events.k8s.io is 1,024.
constexpr std::size_t kMessageMax = 1'000;
constexpr std::size_t kAnnotationsMax = 8;
constexpr const char* kReporter = "forestall";
constexpr Duration kEventAnswerLongest = std::chrono::seconds(10);

// Events of objects without a namespace are in this one.
std::string namespace_of(const EventSubject& subject) {
  return subject.object_namespace.empty() ? "default" : subject.object_namespace;
}

std::string events_path(const EventSubject& subject) {
  return fmt::format("/api/v1/namespaces/{}/events",
                     kubernetes::percent_encoded(namespace_of(subject)));
}

void write_metadata(text::JsonWriter& out, const ClusterEvent& event, const std::string& name) {
  out.key("metadata");
  out.begin_object();
  out.member("name", name);
  out.member("namespace", namespace_of(event.subject));
  if (!event.annotations.empty()) {
    out.key("annotations");
    out.begin_object();
    std::size_t written = 0;
    for (const auto& [key, value] : event.annotations) {
      if (++written > kAnnotationsMax) break;
      out.member(key, kubernetes::bounded_text(value, kMessageMax));
    }
    out.end_object();
  }
  out.end_object();
}

void write_subject(text::JsonWriter& out, const EventSubject& subject) {
  out.key("involvedObject");
  out.begin_object();
  out.member("kind", subject.kind);
  out.member("apiVersion", "v1");
  if (!subject.object_namespace.empty()) out.member("namespace", subject.object_namespace);
  out.member("name", subject.name);
  out.member("uid", subject.uid);
  out.end_object();
}

}  // namespace

std::string api_time(std::int64_t wall_seconds) {
  const auto time = static_cast<std::time_t>(wall_seconds);
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return "1970-01-01T00:00:00Z";
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

kubernetes::OutgoingRequest create_event(const ClusterEvent& event, const std::string& name,
                                         const EventCount& count, const std::string& node) {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", "v1");
  out.member("kind", "Event");
  write_metadata(out, event, name);
  write_subject(out, event.subject);
  out.member("reason", event.reason);
  out.member("message", kubernetes::bounded_text(event.message, kMessageMax));
  out.key("source");
  out.begin_object();
  out.member("component", kReporter);
  out.member("host", node);
  out.end_object();
  out.member("firstTimestamp", api_time(count.first));
  out.member("lastTimestamp", api_time(count.last));
  out.member("count", count.count);
  out.member("type", event.is_normal ? "Normal" : "Warning");
  out.member("reportingComponent", kReporter);
  out.member("reportingInstance", node);
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "POST";
  request.target = events_path(event.subject);
  request.body = std::move(out).take();
  request.longest = kEventAnswerLongest;
  return request;
}

kubernetes::OutgoingRequest count_event(const ClusterEvent& event, const std::string& name,
                                        const EventCount& count) {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("count", count.count);
  out.member("lastTimestamp", api_time(count.last));
  out.member("message", kubernetes::bounded_text(event.message, kMessageMax));
  out.end_object();
  kubernetes::OutgoingRequest request;
  request.method = "PATCH";
  request.target = events_path(event.subject) + '/' + kubernetes::percent_encoded(name);
  request.content_type = "application/merge-patch+json";
  request.body = std::move(out).take();
  request.longest = kEventAnswerLongest;
  return request;
}

}  // namespace forestall::cluster
