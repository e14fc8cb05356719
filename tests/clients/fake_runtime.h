// SPDX-License-Identifier: Apache-2.0
// A container runtime made of lists, served by grpc++ on a unix socket in a directory of its own. A
// test fills the lists, sets which calls fail or hang, and reads which calls were made.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "clients/runtime.h"
#include "runtime/v1/api.grpc.pb.h"
#include "support/temp_tree.h"

namespace forestall::test {

namespace cri = ::runtime::v1;

class FakeRuntime {
 public:
  FakeRuntime();
  FakeRuntime(const FakeRuntime&) = delete;
  FakeRuntime& operator=(const FakeRuntime&) = delete;
  // Releases hanging calls.
  ~FakeRuntime();

  [[nodiscard]] std::string endpoint() const { return "unix://" + socket(); }
  [[nodiscard]] std::string socket() const { return directory_ / "cri.sock"; }
  // Options with deadlines that a busy machine can keep, for tests that are not about deadlines.
  [[nodiscard]] static clients::RuntimeOptions patient();
  // A client with this endpoint.
  [[nodiscard]] std::unique_ptr<clients::ContainerRuntime> client(
      clients::RuntimeOptions options = patient()) const;

  // Results of the calls with the same names. Set them before a client calls. Removals remove
  // nothing here: calls() lists them.
  cri::VersionResponse version;
  cri::StatusResponse status;
  cri::ListPodSandboxResponse sandboxes;
  cri::ListContainersResponse containers;
  cri::ListContainerStatsResponse stats;
  cri::ListImagesResponse images;
  cri::ImageFsInfoResponse filesystems;

  // Adds one to the lists, with kubelet's labels: the pod has the UID of the sandbox, and the
  // container the name of its ID.
  cri::PodSandbox& add_sandbox(const std::string& id, cri::PodSandboxState state);
  cri::Container& add_container(const std::string& id, const std::string& sandbox,
                                cri::ContainerState state);
  cri::Image& add_image(const std::string& id, std::uint64_t size, const std::string& tag = "");

  // Kubelet's directory of pods, with one for the pod `uid`.
  [[nodiscard]] std::string pods_directory() const { return directory_ / "pods"; }
  void add_pod_directory(const std::string& uid) const;

  // By method ("ListImages"), or method and object ("RemoveImage sha256:1").
  std::map<std::string, grpc::Status> failures;
  std::set<std::string> hanging;

  // Method and object of every call that changes something, in order.
  [[nodiscard]] std::vector<std::string> calls() const;
  // Waits until a call hangs; false if none does in time.
  [[nodiscard]] bool wait_hanging() const;
  // The deadline of the last call.
  [[nodiscard]] std::chrono::system_clock::time_point last_deadline() const;

 private:
  class Pods;
  class Images;

  // The result of a call of `method` on `object`.
  grpc::Status enter(const grpc::ServerContext& call, const std::string& method,
                     const std::string& object = "");

  TempTree directory_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool ending_ = false;
  bool hangs_ = false;
  std::vector<std::string> calls_;
  std::chrono::system_clock::time_point last_deadline_;
  std::unique_ptr<Pods> pods_;
  std::unique_ptr<Images> images_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace forestall::test
