// SPDX-License-Identifier: Apache-2.0
#include "cri/containerd_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/unique_fd.h"
#include "cri/setup.pb.h"
#include "support/program.h"
#include "wire/grpc_call.h"

namespace forestall::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHierarchies = "/sys/fs/cgroup";
constexpr std::array kPrograms{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "python3"};

std::string program(const std::string& name) {
  for (const char* directory : {"/usr/sbin/", "/usr/bin/", "/usr/local/bin/"}) {
    if (access((directory + name).c_str(), X_OK) == 0) return directory + name;
  }
  return "";
}

// Runs a program to its end; throws with its output if it fails.
void run(const std::vector<std::string>& command, const std::string& output) {
  Child child([&] {
    const int file = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    return run_program(command, file, file);
  });
  const bool ended = child.wait_exit(std::chrono::seconds(60));
  if (!ended || child.reap() != 0) {
    throw std::runtime_error(command[0] + " failed: " + read_text(output));
  }
}

// The socket a service writes "READY=1" to (sd_notify).
class ReadySocket {
 public:
  explicit ReadySocket(std::string path)
      : path_(std::move(path)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("bind " + path_);
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  // False if `service` ended or did not report in time.
  [[nodiscard]] bool wait_ready(const Child& service) const {
    for (;;) {
      std::array<pollfd, 2> waits{{{socket_.get(), POLLIN, 0}, {service.pidfd(), POLLIN, 0}}};
      if (poll(waits.data(), waits.size(), 30'000) <= 0 || waits[0].revents == 0) return false;
      std::array<char, 256> text{};
      const ssize_t size = recv(socket_.get(), text.data(), text.size(), 0);
      if (size > 0 &&
          std::string_view(text.data(), static_cast<std::size_t>(size)).find("READY=1") !=
              std::string_view::npos) {
        return true;
      }
    }
  }

 private:
  std::string path_;
  UniqueFd socket_;
};

// Removes a cgroup and its children.
void remove_group(const fs::path& group) {
  std::error_code ignored;
  for (const auto& each : fs::directory_iterator(group, ignored)) {
    if (each.is_directory(ignored)) remove_group(each.path());
  }
  rmdir(group.c_str());
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t pid = 0; file >> pid;) children.push_back(pid);
  }
  return children;
}

cri::SandboxConfig sandbox_config(const std::string& uid, const std::string& cgroup) {
  cri::SandboxConfig config;
  config.mutable_metadata()->set_name("pod-" + uid);
  config.mutable_metadata()->set_uid(uid);
  config.mutable_metadata()->set_namespace_("default");
  (*config.mutable_labels())["io.kubernetes.pod.uid"] = uid;
  auto& machine = *config.mutable_linux_config();
  machine.set_cgroup_parent(cgroup);
  machine.mutable_security_context()->mutable_namespace_options()->set_network(cri::NODE);
  return config;
}

}  // namespace

PodCgroup::PodCgroup() : path_("/forestall-test-cri-" + std::to_string(getpid())) {
  const bool unified = access((std::string(kHierarchies) + "/cgroup.procs").c_str(), F_OK) == 0;
  if (unified) {
    directories_.push_back(kHierarchies + path_);
  } else {
    for (const auto& each : fs::directory_iterator(kHierarchies)) {
      if (!each.is_symlink() && fs::exists(each.path() / "cgroup.procs")) {
        directories_.push_back(each.path().string() + path_);
      }
    }
  }
  for (const auto& each : directories_) fs::create_directory(each);
}

PodCgroup::~PodCgroup() {
  for (const auto& each : directories_) remove_group(each);
}

std::string missing_for_containerd() {
  std::string missing;
  for (const char* name : kPrograms) {
    if (program(name).empty()) missing.append(missing.empty() ? "" : ", ").append(name);
  }
  if (missing.empty()) return "";
  return "missing on this machine: " + missing +
         "; install with: scripts/install_packages.sh test (apt-get install containerd runc "
         "python3)";
}

ContainerdRun::ContainerdRun() {
  // Shims detach from containerd. As orphans they become children of this process, which can then
  // end them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  directory_.write("config.toml", config());
  start();
}

ContainerdRun::~ContainerdRun() {
  if (daemon_) {
    kill(daemon_->pid(), SIGCONT);
    kill(daemon_->pid(), SIGTERM);
    (void)daemon_->wait_exit();  // what does not end by itself is killed below
  }
  daemon_.reset();
  end_descendants();
  unmount_all();
}

// Important: restrict_oom_score_adj. Without it, runc cannot start a container where
// CAP_SYS_RESOURCE is missing.
std::string ContainerdRun::config() const {
  std::ostringstream text;
  text << "version = 2\n"
       << "root = '" << root() << "'\n"
       << "state = '" << (directory_ / "state") << "'\n"
       << "disabled_plugins = ['io.containerd.internal.v1.opt', "
          "'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', "
          "'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.aufs']\n"
       << "[grpc]\n  address = '" << socket() << "'\n"
       << "[ttrpc]\n  address = '" << socket() << ".ttrpc'\n"
       << "[plugins.'io.containerd.grpc.v1.cri']\n"
       << "  sandbox_image = '" << kSandboxImage << "'\n"
       << "  restrict_oom_score_adj = true\n"
       << "  disable_apparmor = true\n"
       << "  disable_tcp_service = true\n"
       << "  stats_collect_period = 1\n"
       << "  [plugins.'io.containerd.grpc.v1.cri'.cni]\n"
       << "    conf_dir = '" << (directory_ / "cni") << "'\n"
       << "  [plugins.'io.containerd.grpc.v1.cri'.containerd]\n"
       << "    snapshotter = 'overlayfs'\n"
       << "    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]\n"
       << "      runtime_type = 'io.containerd.runc.v2'\n"
       << "      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\n"
       << "        BinaryName = '" << program("runc") << "'\n"
       << "        SystemdCgroup = false\n"
       << "        Root = '" << (directory_ / "runc") << "'\n";
  return text.str();
}

void ContainerdRun::start() {
  const ReadySocket ready(directory_ / "ready.sock");
  const std::string log_path = directory_ / "log";
  const std::string config_path = directory_ / "config.toml";
  const std::string containerd = program("containerd");
  daemon_.emplace([&] {
    setsid();
    const int file = open(log_path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    setenv("NOTIFY_SOCKET", ready.path().c_str(), 1);
    return run_program({containerd, "-c", config_path}, file, file);
  });
  if (!ready.wait_ready(*daemon_)) throw std::runtime_error("containerd does not start: " + log());
}

clients::RuntimeOptions ContainerdRun::patient() {
  clients::RuntimeOptions options;
  options.deadline = options.removal_deadline = options.removal_budget = std::chrono::minutes(1);
  return options;
}

std::unique_ptr<clients::ContainerRuntime> ContainerdRun::client() const {
  auto made = clients::connect(endpoint(), patient());
  if (!made) throw std::runtime_error(made.error().text());
  return std::move(*made);
}

std::string ContainerdRun::log() const {
  return read_text(directory_ / "log");
}

std::string ContainerdRun::call(const std::string& method, const std::string& message) const {
  const auto reply = wire::grpc_call({socket()}, "/runtime.v1.RuntimeService/" + method, message,
                                     std::chrono::seconds(60));
  if (!reply.ok()) throw std::runtime_error(method + ": " + reply.message + "\n" + log());
  return reply.body;
}

void ContainerdRun::import_image(const std::string& name) const {
  const std::string tar = directory_ / "image.tar";
  run({program("python3"), FORESTALL_PACK_IMAGE, FORESTALL_PAUSE, name, tar}, directory_ / "out");
  run({program("ctr"), "-a", socket(), "-n", "k8s.io", "images", "import", tar},
      directory_ / "out");
}

std::string ContainerdRun::run_pod(const std::string& uid) const {
  cri::RunPodSandboxRequest request;
  *request.mutable_config() = sandbox_config(uid, cgroup_.path());
  cri::RunPodSandboxResponse answer;
  answer.ParseFromString(call("RunPodSandbox", request.SerializeAsString()));
  return answer.pod_sandbox_id();
}

std::string ContainerdRun::start_container(const std::string& sandbox, const std::string& pod_uid,
                                           const std::string& name, const std::string& image,
                                           const std::vector<std::string>& command) const {
  cri::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox);
  *request.mutable_sandbox_config() = sandbox_config(pod_uid, cgroup_.path());
  auto& config = *request.mutable_config();
  config.mutable_metadata()->set_name(name);
  config.mutable_image()->set_image(image);
  config.mutable_command()->Add(command.begin(), command.end());
  (*config.mutable_labels())["io.kubernetes.pod.uid"] = pod_uid;
  (*config.mutable_labels())["io.kubernetes.container.name"] = name;
  auto& security = *config.mutable_linux_config()->mutable_security_context();
  security.mutable_namespace_options()->set_network(cri::NODE);
  cri::CreateContainerResponse answer;
  answer.ParseFromString(call("CreateContainer", request.SerializeAsString()));
  cri::StartContainerRequest start;
  start.set_container_id(answer.container_id());
  (void)call("StartContainer", start.SerializeAsString());
  return answer.container_id();
}

void ContainerdRun::stop_container(const std::string& id) const {
  cri::StopContainerRequest request;
  request.set_container_id(id);
  request.set_timeout(20);
  (void)call("StopContainer", request.SerializeAsString());
}

void ContainerdRun::stop_pod(const std::string& sandbox) const {
  cri::StopPodSandboxRequest request;
  request.set_pod_sandbox_id(sandbox);
  (void)call("StopPodSandbox", request.SerializeAsString());
}

// Shims first, then their children: a dying shim hands them over.
void ContainerdRun::end_descendants() const {
  for (int round = 0; round < 16; ++round) {
    const auto children = own_children();
    if (children.empty()) return;
    for (const pid_t pid : children) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
}

void ContainerdRun::unmount_all() const {
  std::vector<std::string> mounts;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string skipped, target;
    fields >> skipped >> skipped >> skipped >> skipped >> target;
    if (target.starts_with(directory_.path().string() + "/")) mounts.push_back(target);
  }
  for (auto each = mounts.rbegin(); each != mounts.rend(); ++each) {
    umount2(each->c_str(), MNT_DETACH);
  }
}

}  // namespace forestall::test
