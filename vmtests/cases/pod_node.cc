// SPDX-License-Identifier: Apache-2.0
#include "cases/pod_node.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "forestall/v1/report.pb.h"
#include "messages/json.h"

namespace forestall::vm {
namespace {

std::uint64_t number_after(const std::string& file, const std::string& key) {
  std::istringstream lines(test::read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  throw std::runtime_error(file + " has no " + key);
}

}  // namespace

std::uint64_t kernel_oom_kills() {
  return number_after("/proc/vmstat", "oom_kill ");
}

Bytes machine_memory() {
  return kib(static_cast<std::int64_t>(number_after("/proc/meminfo", "MemTotal:")));
}

Bytes memory_available() {
  const test::Ran ran = test::run_forestall({"signals", "--output", "json"});
  v1::SignalsReport report;
  if (ran.exit_code != 0 || !messages::from_json(ran.output, report)) {
    throw std::runtime_error("signals: " + ran.errors);
  }
  for (const v1::Evidence& each : report.signals()) {
    if (each.threshold().signal() == "memory.available") return Bytes{each.available()};
  }
  throw std::runtime_error("no memory.available in the output of signals");
}

PodNode::PodNode(Driver driver, std::vector<Pod> pods) : driver_(driver), pods_(std::move(pods)) {
  groups_ = std::make_unique<test::ScratchCgroup>(driver == Driver::systemd ? "/kubepods.slice"
                                                                            : "/kubepods");
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    groups_->child(relative_pod_path(i) + "/" +
                   (driver == Driver::systemd ? "cri-containerd-c0ffee.scope" : "c0ffee"));
  }
  for (const Pod& pod : pods_) hogs_.emplace_back(*groups_, container_path(pod.name), pod.held);
}

std::string PodNode::uid(std::size_t i) const {
  return fmt::format("{:08x}-aaaa-4bbb-8ccc-dddddddddddd", i + 1);
}

std::string PodNode::relative_pod_path(std::size_t i) const {
  if (driver_ == Driver::cgroupfs) return "burstable/pod" + uid(i);
  std::string escaped = uid(i);
  for (char& c : escaped) c = c == '-' ? '_' : c;
  return fmt::format("kubepods-burstable.slice/kubepods-burstable-pod{}.slice", escaped);
}

std::size_t PodNode::index(const std::string& name) const {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    if (pods_[i].name == name) return i;
  }
  throw std::runtime_error("no pod " + name);
}

std::string PodNode::pod_path(const std::string& name) const {
  return groups_->path() + "/" + relative_pod_path(index(name));
}

std::string PodNode::container_path(const std::string& name) const {
  return pod_path(name) + (driver_ == Driver::systemd ? "/cri-containerd-c0ffee.scope" : "/c0ffee");
}

std::string PodNode::config(Bytes threshold, const std::string& more) const {
  return fmt::format(
      "evictionHard: {{memory.available: {}Mi}}\nreleaseTimeout: 20s\n"
      "manifest: manifest.yaml\n{}\n",
      threshold.count >> 20, more);
}

std::string PodNode::manifest() const {
  std::string text = "pods:\n";
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    text += fmt::format("  - {{uid: {}, name: {}, priority: {}, memoryRequest: {}}}\n", uid(i),
                        pods_[i].name, pods_[i].priority, pods_[i].request.count);
  }
  return text;
}

test::Hog& PodNode::hog(const std::string& name) {
  return hogs_[index(name)];
}

std::vector<std::string> PodNode::dead() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    if (!hogs_[i].alive()) names.push_back(pods_[i].name);
  }
  return names;
}

std::unique_ptr<test::AgentRun> guard(const PodNode& node, const std::string& config,
                                      std::vector<std::string> disabled) {
  return std::make_unique<test::AgentRun>(config, std::move(disabled), std::vector<std::string>{},
                                          node.manifest());
}

}  // namespace forestall::vm
