//! In-process `kube::Client`: calls the server without a socket.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kube_client::Client;
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::auth::User;
use crate::http::body::Body;
use crate::server::{Server, StartError};

/// The namespace of [`Client::default_namespace`], as in a kubeconfig that names none.
const NAMESPACE: &str = "default";

impl Server {
    /// A client without a socket, for the administrator.
    ///
    /// Requests are calls of functions; everything else is as over the network: the same bytes go to and fro, watches
    /// stream, errors are `kube::Error::Api`. A client keeps the server running, as a copy of it does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use settled_apiserver::Server;
    ///
    /// let server = Server::in_memory().await?;
    /// let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(server.client());
    /// assert!(namespaces.get_opt("default").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(&User::admin())
    }

    /// A client without a socket, for any user. [`User::anonymous`] shows no credentials.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client_as(&self, user: &User) -> Client {
        let user = Some(user.clone()).filter(|user| *user != User::anonymous());
        Client::new(InProcess { server: self.clone(), user }, NAMESPACE)
    }

    /// What `kube::Client::try_from` needs for a client over a socket, for the administrator: see [`Server::url`].
    ///
    /// # Errors
    /// No port can be had.
    pub async fn kube_config(&self) -> Result<kube_client::Config, StartError> {
        let failed = |error: KubeconfigError| StartError::Kubeconfig(error.into());
        let text = self.admin_kubeconfig(&self.url().await?);
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(failed)?;
        let options = KubeConfigOptions::default();
        kube_client::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)
    }
}

/// Answers a client's requests.
struct InProcess {
    server: Server,
    user: Option<User>,
}

impl tower_service::Service<Request<kube_client::client::Body>> for InProcess {
    type Response = Response<HeldBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube_client::client::Body>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move {
            let response = server.call(user, request).await;
            Ok(response.map(|body| HeldBody { body, _server: server }))
        })
    }
}

/// An answer; the server runs until it is read: a watch outlives the client that began it.
struct HeldBody {
    body: Body,
    _server: Server,
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
