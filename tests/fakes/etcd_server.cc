#include "tests/fakes/etcd_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "coordinator/etcd_client.h"

namespace forebay::fakes {
namespace {

/// The machine's, or another version that the environment names.
const char* Program() {
  const char* given = std::getenv("FOREBAY_ETCD");
  return given != nullptr ? given : "/usr/bin/etcd";
}
constexpr std::chrono::seconds kPatience{30};

/// A port that was free a moment ago.
int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(fd, plain, size) == 0 && ::getsockname(fd, plain, &size) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

std::unique_ptr<EtcdServer> EtcdServer::Start(std::vector<std::string> options) {
  if (::access(Program(), X_OK) != 0) return nullptr;
  std::unique_ptr<EtcdServer> server(new EtcdServer());
  server->endpoint_ = "http://127.0.0.1:" + std::to_string(FreePort());
  const std::string peer = "http://127.0.0.1:" + std::to_string(FreePort());
  server->command_ = {Program(),
                      "--name=only",
                      "--data-dir=" + server->dir_ / "data",
                      "--listen-client-urls=" + server->endpoint_,
                      "--advertise-client-urls=" + server->endpoint_,
                      "--listen-peer-urls=" + peer,
                      "--initial-advertise-peer-urls=" + peer,
                      "--initial-cluster=only=" + peer,
                      "--log-level=error"};
  for (std::string& option : options) server->command_.push_back(std::move(option));
  if (!server->StartAgain()) return nullptr;
  return server;
}

EtcdServer::~EtcdServer() { Kill(); }

bool EtcdServer::StartAgain() {
  const std::string log = dir_ / "log";
  std::vector<char*> words;
  for (std::string& word : command_) words.push_back(word.data());
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  return pid_ > 0 && WaitUntilItAnswers();
}

bool EtcdServer::WaitUntilItAnswers() const {
  EtcdClient client(EtcdOptions{.endpoints = {endpoint_}});
  const Deadline deadline = Deadline::After(kPatience);
  while (!deadline.Expired()) {
    if (client.Get("any")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// A thread of it may answer on until all have stopped.
void EtcdServer::Pause() const {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  (void)::waitpid(pid_, &status, WUNTRACED);
}

void EtcdServer::Continue() const { ::kill(pid_, SIGCONT); }

void EtcdServer::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  (void)::waitpid(pid_, &status, 0);
  pid_ = -1;
}

}  // namespace forebay::fakes
